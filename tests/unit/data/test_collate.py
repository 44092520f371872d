from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from sts_lightning.core.processes import Shard
from sts_lightning.data.collate import View, ViewCollator

EXAMPLES = [
    {"sentence1": "a", "sentence2": "b", "label": 1.5},
    {"sentence1": "c", "sentence2": "d", "label": 2.0},
]


def keep(views: Sequence[list[str]], augmentations: Sequence[Any]) -> list[Any]:
    return [list(views), list(augmentations)]


def test_views_and_typed_labels() -> None:
    batch = ViewCollator([View("sentence1"), View("sentence2")], "score", keep)(EXAMPLES)
    assert batch.rows == [[["a", "c"], ["b", "d"]], [None, None]]
    assert (batch.num_views, batch.size) == (2, 2)
    assert batch.labels is not None
    torch.testing.assert_close(batch.labels, torch.tensor([1.5, 2.0]))
    assert ViewCollator([View("sentence1")], "none", keep)(EXAMPLES).labels is None
    classes = ViewCollator([View("sentence1")], "class", keep)([{"sentence1": "a", "label": 2}]).labels
    assert classes is not None
    assert classes.dtype == torch.int64


def test_a_column_may_serve_several_views() -> None:
    def augment(ids: list[int], special: Sequence[int]) -> list[int]:
        return ids

    batch = ViewCollator([View("sentence1"), View("sentence1", augment)], "none", keep)(EXAMPLES)
    assert batch.rows == [[["a", "c"], ["a", "c"]], [None, augment]]


def test_equal_sentences_have_equal_numbers_in_every_shard() -> None:
    examples = [{"sentence1": a, "sentence2": b} for a, b in ("xy", "yx", "zz")]
    views = [View("sentence1"), View("sentence2")]
    for rank in (0, 1):
        batch = ViewCollator(views, "none", keep, Shard(rank, 2))(examples)
        assert batch.sentence_ids is not None
        assert batch.sentence_ids.tolist() == [[0, 1, 2], [1, 0, 2]]


def test_a_third_view_of_a_sentence_is_no_copy_of_it() -> None:
    """CoT-BERT's third template contradicts the sentence; in triplets a third column may repeat the first."""
    examples = [{"sentence1": a, "sentence2": b, "sentence3": c} for a, b, c in ("xyx", "zyx")]
    ids = ViewCollator([View("sentence1")] * 3, "none", keep)(examples).sentence_ids
    assert ids is not None
    assert ids.tolist() == [[0, 1], [0, 1], [2, 3]]
    ids = ViewCollator([View(f"sentence{n}") for n in (1, 2, 3)], "none", keep)(examples).sentence_ids
    assert ids is not None
    assert ids.tolist() == [[0, 1], [2, 2], [0, 0]]
