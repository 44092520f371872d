from __future__ import annotations

import numpy as np

from sts_lightning.testing.toy import (
    SLOTS,
    WEIGHTS,
    classed_pairs,
    realise,
    scored_pairs,
    similarity,
    toy,
    triplets,
)
from tests.support.data_modules import data_module


def test_similarity_by_hand() -> None:
    first = np.array([0, 1, 2, 3, 4])
    assert similarity(first, first) == 5.0
    assert similarity(first, np.array([0, 1, 2, 0, 0])) == 1.5
    assert similarity(first, np.array([7, 7, 7, 3, 4])) == 3.5
    assert WEIGHTS.sum() == 5.0


def test_a_sentence_says_its_meaning() -> None:
    meaning = np.array([0, 1, 2, 3, 4])
    for seed in range(20):
        text = realise(meaning, np.random.default_rng(seed)).lower()
        for values, value in zip(SLOTS.values(), meaning, strict=True):
            assert any(form.lower() in text for form in values[value])


def test_scores_cover_the_scale_and_splits_do_not_overlap() -> None:
    data = data_module(toy, batch_size=8, seed=0)
    data.setup()
    labels = np.asarray(data.train["label"])
    assert labels.min() == 0
    assert labels.max() == 5
    assert len(np.unique(labels)) > 10
    texts = [set(table["sentence1"]) for table in (data.train, data.dev, data.tests[0].subsets["test"])]
    assert not texts[0] & texts[1]
    assert not texts[0] & texts[2]


def test_the_corpus_is_always_the_same() -> None:
    one, two = (scored_pairs(50, np.random.default_rng(0)).columns for _ in range(2))
    assert one == two


def test_triplets_have_three_sentences() -> None:
    table = triplets(40, np.random.default_rng(0))
    assert list(table.columns) == ["sentence1", "sentence2", "sentence3"]
    assert all(len(set(row.values())) >= 2 for row in table)


def test_classes_tell_how_many_slots_are_shared() -> None:
    table = classed_pairs(60, np.random.default_rng(0))
    forms = [form.lower() for values in SLOTS.values() for pair in values for form in pair]
    meaning = {form: number // 2 for number, form in enumerate(forms)}

    def values(text: str) -> set[int]:
        return {meaning[form] for form in forms if f" {form} " in f" {text.lower()} "}

    shared = [len(values(row["sentence1"]) & values(row["sentence2"])) for row in table]
    assert set(table["label"]) == {0, 1, 2}
    for label, count in zip(table["label"], shared, strict=True):
        assert (count == 0) == (label == 0)
        assert (count == 5) == (label == 2)


def test_sentences_are_one_column_for_all_views() -> None:
    data = data_module(toy, batch_size=8, seed=0, kind="sentences", views=3, repetition=0.3)
    assert [view.column for view in data.data_set.views] == ["sentence1"] * 3
    assert [view.augmentation is not None for view in data.data_set.views] == [False, True, False]
    assert (len(data.data_set.views), data.data_set.label) == (3, "none")
    assert len(data_module(toy, batch_size=8, seed=0, kind="triplets").data_set.views) == 3
