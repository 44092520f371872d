"""The user's own rows with lists, and texts with classes: tables, draws and what meets in a batch."""

from __future__ import annotations

import json
import logging
import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sts_lightning.core.choices import EMPTY
from sts_lightning.core.errors import ConfigError, DataError
from sts_lightning.data.collate import Batch
from sts_lightning.data.data_set import DataSet
from sts_lightning.data.hub_pairs import triplets_hub
from sts_lightning.data.module import DataModule
from sts_lightning.data.overlap import OverlapFilter
from sts_lightning.data.rows import labels_file, triplets_file
from sts_lightning.evaluation.unseen_text import columns_of
from sts_lightning.losses.infonce import InfoNCELoss
from sts_lightning.losses.matryoshka import MatryoshkaLoss
from sts_lightning.losses.vector_distillation import VectorDistillationLoss
from sts_lightning.papers.losses.infocse import InfoCSELoss
from sts_lightning.workflows.preflight import check_examples
from tests.support.data_modules import data_module, training

LISTS = [
    {"query": "q0", "pos": ["p0", "p1", "p2"], "neg": ["n0", "n1", "n2", "n0"]},
    {"query": "q1", "pos": ["p3"], "neg": []},
    {"query": "q2", "pos": ["p4", "p5"], "neg": ["n3"]},
    {"query": "q3", "pos": ["p6"], "neg": ["n4", "n5"]},
]
"""FlagEmbedding's form."""


def put(folder: Path, name: str, records: Sequence[dict[str, Any]]) -> str:
    path = folder / name
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return str(path)


@pytest.fixture
def dev(tmp_path: Path) -> str:
    path = tmp_path / "dev.csv"
    path.write_text("sentence1,sentence2,score\na,b,1\nc,d,2\n")
    return str(path)


def keep(views: Sequence[list[str]], augmentations: Sequence[Any]) -> list[list[str]]:
    return list(views)


def module(
    data_set: Callable[..., DataSet], path: str, dev: str, batch_size: int = 2, **settings: Any
) -> DataModule:
    data = data_module(data_set, ".", path, batch_size=batch_size, dev_path=dev, **settings)
    data.setup()
    data.connect(keep, keep)
    return data


def test_a_table_row_for_each_positive_and_the_negatives_as_a_list(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    data = triplets_file(".", put(tmp_path, "a.jsonl", LISTS), dev_path="dev.csv")
    assert (len(data.views), data.unit, data.classes) == (3, "triplets", False)
    splits = training(triplets_file, ".", put(tmp_path, "a.jsonl", LISTS))
    assert splits.train.columns == {
        "sentence1": ["q0", "q0", "q0", "q1", "q2", "q2", "q3"],
        "sentence2": ["p0", "p1", "p2", "p3", "p4", "p5", "p6"],
        "negatives": [["n0", "n1", "n2"]] * 3 + [[], ["n3"], ["n3"], ["n4", "n5"]],
        "line": [0, 0, 0, 1, 2, 2, 3],
    }
    assert splits.train.sources[0].kept == 7
    assert (
        "2 lines with several positives, of which an epoch has one, each in its turn: 5 positives"
        in caplog.text
    )
    assert "1 a row (data.negatives), drawn in each epoch; 4 rows with more" in caplog.text
    assert "1 place of 7 are empty" in caplog.text


def test_columns_of_hard_negatives_may_be_drawn(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("anchor,positive,negative1,negative2\na,b,c,d\ne,f,g,h\n")
    whole = training(triplets_file, ".", str(path)).train
    assert whole[1] == {"sentence1": "e", "sentence2": "f", "sentence3": "g", "sentence4": "h"}
    one = training(triplets_file, ".", str(path), negatives=1).train
    assert one[1] == {"sentence1": "e", "sentence2": "f", "negatives": ["g", "h"]}
    assert len(triplets_file(".", str(path), negatives=1).views) == 3
    assert len(triplets_file(".", str(path), negatives=0).views) == 2
    typed = triplets_file(".", str(path), columns=("anchor", "positive"))
    assert len(typed.views) == 2
    with pytest.raises(ValueError, match=r"columns must be two or more different names"):
        triplets_file(".", str(path), columns=("a", "a"))
    with pytest.raises(ValueError, match=r"negatives must lie between 0 and 2, as many .* \(2\), got 3\."):
        triplets_file(".", str(path), negatives=3)


def test_files_of_one_run_have_the_same_columns(tmp_path: Path, dev: str) -> None:
    one = put(tmp_path, "a.jsonl", LISTS)
    two = put(tmp_path, "b.jsonl", [{"query": "q9", "pos": ["p7", "p8"], "neg": []}])
    # The last line of one file and the first of the next are two lines.
    table = training(triplets_file, ".", [one, two]).train
    assert table["line"][:] == [0, 0, 0, 1, 2, 2, 3, 4, 4]
    other = put(tmp_path, "c.jsonl", [{"query": "q", "response": "r"}] * 2)
    with pytest.raises(
        DataError, match=r"has the columns query, response, but .*a\.jsonl has query, pos, neg"
    ) as caught:
        triplets_file(".", [one, other])
    assert "c.jsonl" in str(caught.value.path)


def test_other_kinds_of_rows_are_pointed_to_their_data(tmp_path: Path) -> None:
    scored, classes = tmp_path / "s.csv", tmp_path / "c.csv"
    scored.write_text("sentence1,sentence2,score\na,b,1.5\nc,d,2\n")
    classes.write_text("text,label\na b,x\nc d,y\n")
    with pytest.raises(DataError, match="has scored pairs") as caught:
        triplets_file(".", str(scored))
    assert "data=pairs_file" in str(caught.value.hint)
    with pytest.raises(DataError, match="texts with classes") as caught:
        triplets_file(".", str(classes))
    assert "data=labels_file" in str(caught.value.hint)


def test_a_missing_file_is_an_error_of_the_data(tmp_path: Path) -> None:
    for columns in (None, ("a", "b")):
        with pytest.raises(DataError, match=r"cannot be read \(No such file"):
            triplets_file(".", str(tmp_path / "mine.csv"), columns=columns, dev_path="dev.csv").read()


def test_an_epoch_has_one_row_of_each_line_and_all_positives_are_known(tmp_path: Path, dev: str) -> None:
    data = module(triplets_file, put(tmp_path, "a.jsonl", LISTS), dev, negatives=2)
    assert data.epoch_rows == 4
    loader = data.train_dataloader()
    assert len(loader) == 2
    positives = set()
    for _ in range(6):
        batches: list[Batch[Any]] = list(loader)
        rows = [row for batch in batches for row in zip(*batch.texts, strict=True)]
        assert sorted(row[0] for row in rows) == ["q0", "q1", "q2", "q3"]
        positives |= {row[1] for row in rows}
        for batch in batches:
            assert batch.sentence_ids is not None
            found = batch.sentence_ids[:4]
            for at, anchor in enumerate(batch.texts[0]):
                listed = next(record["neg"] for record in LISTS if record["query"] == anchor)
                places = {batch.texts[v][at] for v in (2, 3) if found[v, at] != EMPTY}
                assert places <= {*listed}
                assert len(places) == min(2, len({*listed}))
                assert all(
                    batch.texts[v][at] in (anchor, batch.texts[1][at])
                    for v in (2, 3)
                    if found[v, at] == EMPTY
                )
    assert positives == {f"p{i}" for i in range(7)}
    assert data.train_dataloader() is not loader
    known = data._known[""]
    assert known.partners["q0"] == {"p0", "p1", "p2"}  # type: ignore[union-attr]


def test_weights_of_files_count_lines(tmp_path: Path, dev: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    one = put(tmp_path, "a.jsonl", LISTS)
    two = put(tmp_path, "b.jsonl", [{"query": f"x{i}", "pos": [f"y{i}"], "neg": []} for i in range(5)])
    data = data_module(triplets_file, ".", {one: 2.0, two: 1.0}, batch_size=3, dev_path=dev)
    data.setup()
    assert data.epoch_rows == 2 * 4 + 5
    assert "7 rows read, 7 kept, weight 2: 8 rows in an epoch" in caplog.text
    data.connect(keep, keep)
    anchors = Counter(chain.from_iterable(batch.texts[0] for batch in data.train_dataloader()))
    assert sum(anchors.values()) == 12  # a last batch of one is left out
    assert max(anchors.values()) == 2
    assert set(anchors) <= {"q0", "q1", "q2", "q3", *(f"x{i}" for i in range(5))}


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_resumed_run_draws_the_same(num_workers: int, tmp_path: Path, dev: str) -> None:
    records = [
        {
            "query": f"q{i}",
            "pos": [f"p{i} {j}" for j in range(1 + i % 3)],
            "neg": [f"n{i} {j}" for j in range(i % 4)],
        }
        for i in range(14)
    ]
    path = put(tmp_path, "a.jsonl", records)

    def loader() -> Any:
        data = module(triplets_file, path, dev, negatives=2)
        data.num_workers = num_workers
        return data.train_dataloader()

    def texts(batches: Any) -> list[Any]:
        return [(batch.texts, batch.sentence_ids.tolist()) for batch in batches]

    whole = loader()
    first, second = texts(whole), texts(whole)
    assert first != second
    begun = loader()
    stream = iter(begun)
    assert texts(next(stream) for _ in range(3)) == first[:3]
    resumed = loader()
    resumed.load_state_dict(begun.state_dict())
    assert texts(resumed) == first[3:]
    assert texts(resumed) == second
    stream.close()


def test_a_data_set_of_the_hub_or_a_folder(tmp_path: Path, dev: str) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    put(folder, "train.jsonl", LISTS)
    data = triplets_hub(".", str(folder), dev_path=dev)
    assert len(data.views) == 3
    table = data.read().train
    assert table.columns == training(triplets_file, ".", put(tmp_path, "a.jsonl", LISTS)).train.columns
    few = triplets_hub(".", str(folder), limit=2, dev_path=dev).read()
    kept = {*few.train["sentence1"]}
    assert len(kept) == 2
    assert len(few.train) == sum(len(record["pos"]) for record in LISTS if record["query"] in kept)
    assert few.train.sources[0].kept == len(few.train)
    typed = triplets_hub(".", str(folder), columns=("query", "pos"), dev_path=dev)
    assert len(typed.views) == 2
    assert typed.read().train["line"][:] == [0, 0, 0, 1, 2, 2, 3]


@pytest.mark.parametrize(("how", "left"), [("none", 7), ("exact", 4)])
def test_the_overlap_filter_sees_lists(how: OverlapFilter, left: int, tmp_path: Path) -> None:
    test = tmp_path / "test.csv"
    test.write_text("sentence1,sentence2,score\nn1,q0,1\nq1,x,2\n")
    splits = training(triplets_file, ".", put(tmp_path, "a.jsonl", LISTS), filter=how, test_path=str(test))
    assert len(splits.train) == left


def test_truncation_is_reported_of_lists_too(tmp_path: Path) -> None:
    table = training(triplets_file, ".", put(tmp_path, "a.jsonl", LISTS)).train
    first, second, listed = columns_of([table])
    assert ([*first][:4], [*second][:4]) == (["q0", "q0", "q0", "q1"], ["p0", "p1", "p2", "p3"])
    assert listed == ["n0", "n1", "n2"] * 3 + ["n3", "n3", "n4", "n5"]


@pytest.mark.parametrize(
    ("loss", "accepted"),
    [
        (InfoNCELoss(), True),
        (MatryoshkaLoss(InfoNCELoss(), [4]), True),
        (InfoNCELoss(mask_repeats=False), False),
        (MatryoshkaLoss(InfoNCELoss(mask_repeats=False), [4]), False),
        (InfoCSELoss(), False),  # its language model reads all texts
        (VectorDistillationLoss(), False),
    ],
)
def test_losses_that_count_empty_places_are_rejected(
    loss: Any, accepted: bool, tmp_path: Path, dev: str
) -> None:
    data = module(triplets_file, put(tmp_path, "a.jsonl", LISTS), dev)
    if accepted:
        check_examples(loss, data)
    else:
        with pytest.raises(ConfigError, match=r"would count 1 empty place of rows") as caught:
            check_examples(loss, data)
        assert "data.negatives=0" in str(caught.value.hint)
    check_examples(loss, module(triplets_file, put(tmp_path, "b.jsonl", LISTS[2:]), dev))


CLASSES = [
    ("card lost", "card"),
    ("lost my card", "card"),
    ("where is my card", "card"),
    ("card lost", "card"),
    ("hi", "greeting"),
    ("hello", "greeting"),
    ("hi", "small talk"),
    ("nice weather", "small talk"),
    ("bye", "end"),
    ("bye", "end"),
]


def labelled(folder: Path, rows: Sequence[tuple[str, str]] = CLASSES) -> str:
    path = folder / "intents.csv"
    path.write_text("text,label\n" + "".join(f"{text},{name}\n" for text, name in rows))
    return str(path)


def test_texts_with_classes(tmp_path: Path, dev: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    data = module(labels_file, labelled(tmp_path), dev, batch_size=4)
    assert (len(data.data_set.views), data.data_set.label, data.data_set.unit, data.data_set.classes) == (
        2,
        "none",
        "texts",
        True,
    )
    assert data.train.columns == {
        "sentence1": [text for text, _ in CLASSES[:-2]],
        "class": [name for _, name in CLASSES[:-2]],
    }
    assert data.counts[0].dropped == {"the only text of its class": 2}
    assert "1 class of one text, which has no other to be paired with and is left out: end" in caplog.text
    assert "6 different texts of 3 classes; 1 text in several" in caplog.text
    of_class: dict[str, set[str]] = {}
    for text, name in CLASSES:
        of_class.setdefault(name, set()).add(text)
    loader = data.train_dataloader()
    drawn = set()
    for _ in range(20):
        pairs = [pair for batch in loader for pair in zip(*batch.texts, strict=True)]
        assert Counter(text for text, _ in pairs) == Counter(text for text, _ in CLASSES[:-2])
        for one, two in pairs:
            assert one != two
            assert any({one, two} <= texts for texts in of_class.values())
        drawn |= {*pairs}
    assert len(drawn) == 3 * 2 + 2 + 2  # every text with every other of its class


def test_rows_and_classes_keep_the_general_tasks(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\na,x\nb,x\n")
    for keep in (False, True):
        assert labels_file(str(tmp_path), str(path), keep_general=keep).keep_general == keep
        rows = triplets_file(str(tmp_path), str(path), ("text", "label"), keep_general=keep)
        assert rows.keep_general == keep


def test_many_classes_of_one_text_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [("a", "x"), ("b", "x"), *((f"t{i}", f"c{i}") for i in range(8))]
    training(labels_file, ".", labelled(tmp_path, rows))
    assert "8 classes of one text" in caplog.text
    assert "left out: c0, c1, c2, c3, c4, and 3 more" in caplog.text


def test_texts_of_a_class_are_no_negatives(tmp_path: Path, dev: str) -> None:
    """InfoNCE of a batch by hand; "hi" is in two classes, and no text of either is its negative."""
    data = module(labels_file, labelled(tmp_path), dev, batch_size=8)
    of_text: dict[str, set[str]] = {}
    for text, name in CLASSES:
        of_text.setdefault(text, set()).add(name)
    [batch] = data.train_dataloader()
    anchors, positives = batch.texts
    vectors = {text: np.random.default_rng(at).normal(size=5) for at, text in enumerate(of_text)}
    views = np.array(
        [[vectors[text] / np.linalg.norm(vectors[text]) for text in texts] for texts in batch.texts]
    )
    total, left_out = 0.0, 0
    for i in range(8):
        logits = [views[0, i] @ views[1, i] / 0.05]
        for j in range(8):
            if j == i:
                continue
            if of_text[anchors[i]] & of_text[positives[j]]:
                left_out += 1
            elif positives[j] != positives[i]:
                logits.append(views[0, i] @ views[1, j] / 0.05)
        total += math.log(sum(math.exp(logit) for logit in logits)) - logits[0]
    found = InfoNCELoss()(torch.from_numpy(views), sentence_ids=batch.sentence_ids)
    assert left_out > 8
    assert found.item() == pytest.approx(total / 8)


def test_spellings_that_the_model_cannot_tell_apart_share_their_classes(tmp_path: Path, dev: str) -> None:
    rows = [("Hi", "a"), ("morning", "a"), ("hi", "b"), ("weather", "b")]
    data = data_module(labels_file, ".", labelled(tmp_path, rows), batch_size=4, dev_path=dev)
    data.setup()
    data.connect(keep, keep, lambda texts: [[ord(c) for c in text.lower()] for text in texts])
    assert data._known_positives("").classes["Hi"] == {"a", "b"}  # type: ignore[union-attr]


def test_the_texts_of_a_class_go_to_different_batches(tmp_path: Path, dev: str) -> None:
    rows = [(f"{name} {i}", name) for name in "abcdefgh" for i in range(6)]
    data = module(labels_file, labelled(tmp_path, rows), dev, batch_size=8)
    for batch in data.train_dataloader():
        assert len({text[0] for text in batch.texts[0]}) == 8


def test_a_loss_without_masks_is_rejected(tmp_path: Path, dev: str) -> None:
    data = module(labels_file, labelled(tmp_path), dev)
    check_examples(InfoNCELoss(), data)
    with pytest.raises(ConfigError, match="texts of a class as negatives"):
        check_examples(InfoNCELoss(mask_repeats=False), data)
