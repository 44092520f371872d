from __future__ import annotations

import torch

from sts_lightning.data.collate import ViewCollator


def test_rows_are_view_major_and_labels_typed() -> None:
    examples = [
        {"sentence1": "a", "sentence2": "b", "label": 1.5},
        {"sentence1": "c", "sentence2": "d", "label": 2.0},
    ]
    batch = ViewCollator(("sentence1", "sentence2"), "score", list)(examples)
    assert batch.rows == ["a", "c", "b", "d"]
    assert batch.num_views == 2
    assert batch.labels is not None
    torch.testing.assert_close(batch.labels, torch.tensor([1.5, 2.0]))
    assert ViewCollator(("sentence1",), "none", list)(examples).labels is None
    classes = ViewCollator(("sentence1",), "class", list)([{"sentence1": "a", "label": 2}]).labels
    assert classes is not None
    assert classes.dtype == torch.int64
