"""The data module in plain Lightning, without the workflows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sts_lightning.core.errors import CheckpointError, DataError
from sts_lightning.data.data_set import Splits
from sts_lightning.data.module import DataModule
from sts_lightning.testing.toy import toy


class Reads:
    """Counts how often a data set is read, and can keep fewer rows than it reads."""

    def __init__(self) -> None:
        self.count, self.kept, self.weight = 0, 40, 1.0

    def read(self) -> Splits:
        self.count += 1
        splits = TOY.read()
        short = np.arange(40) >= self.kept
        train = splits.train.read_from("toy").weighted(self.weight).drop(short, "too short")
        return replace(splits, train=train)


TOY = toy(train_size=40, dev_size=20, test_size=20)


def data(reads: Reads | None = None) -> DataModule:
    return DataModule(replace(TOY, read=(reads or Reads()).read), batch_size=8)


def test_files_are_read_once() -> None:
    reads = Reads()
    source = data(reads)
    source.setup()
    train = source.train
    source.setup("fit")
    source.setup("validate")
    assert reads.count == 1
    assert source.train is train
    assert len(source.counts) == 1


def test_too_few_examples() -> None:
    reads = Reads()
    reads.kept = 1
    with pytest.raises(DataError, match=r"1 training example left, .* two: 39 dropped: too short\."):
        data(reads).setup()


@pytest.mark.parametrize("table", ["train", "dev"])
def test_other_tables_of_the_same_size_are_not_resumed(table: str) -> None:
    source, other = data(), data()
    source.setup()
    other.setup()
    other.load_state_dict(source.state_dict())
    changed = data()
    changed.setup()
    setattr(changed, table, getattr(changed, table)[::-1])
    with pytest.raises(CheckpointError, match="training or dev examples have changed"):
        changed.load_state_dict(source.state_dict())


def test_weights_that_leave_one_row() -> None:
    reads = Reads()
    reads.weight = 0.025
    with pytest.raises(DataError, match="1 training example left"):
        data(reads).setup()
