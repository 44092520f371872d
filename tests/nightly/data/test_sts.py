"""The filtered corpus of STS-B and SICK-R."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.data.sts_train import sts_train
from tests.support.data_modules import data_module


@pytest.mark.parametrize(
    ("how", "kept"),
    [("none", 8), ("exact", 5), ("normalized", 4)],
)
def test_filter_drops_pairs_of_the_tests_in_either_order(root: Path, how: str, kept: int) -> None:
    data = data_module(sts_train, str(root), batch_size=2, seed=0, filter=how)
    data.setup()
    assert len(data.train) == kept
    texts = set(data.train["sentence1"])
    assert ("A cat." in texts) == (how == "none")
    assert ("a CAT" in texts) == (how != "normalized")
    assert sum(count.kept for count in data.counts) == kept
    assert sum(count.read for count in data.counts) == 8
