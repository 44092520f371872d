"""The data module in plain Lightning, without the workflows."""

from __future__ import annotations

from typing import Any

import pytest
from datasets import Dataset

from sts_lightning.core.errors import CheckpointError, DataError
from sts_lightning.data.tables import SourceCount
from sts_lightning.testing.toy import ToyData


class CountingData(ToyData):
    """Counts how often its training table is read, and can keep fewer rows than it reads."""

    reads = 0
    kept = 40

    def load_train(self) -> Dataset:
        self.reads += 1
        table = super().load_train().select(range(self.kept))
        self.counts[-1] = SourceCount("toy", 40, {"too short": 40 - self.kept})
        return table


def data(**settings: Any) -> CountingData:
    return CountingData(batch_size=8, seed=1, train_size=40, dev_size=20, test_size=20, **settings)


def test_files_are_read_once() -> None:
    source = data()
    source.setup()
    train = source.train
    source.setup("fit")
    source.setup("validate")
    assert source.reads == 1
    assert source.train is train
    assert len(source.counts) == 1


def test_too_few_examples() -> None:
    source = data()
    source.kept = 1
    with pytest.raises(DataError, match=r"1 training example left, .* two: 39 dropped: too short\."):
        source.setup()


@pytest.mark.parametrize("table", ["train", "dev"])
def test_other_tables_of_the_same_size_are_not_resumed(table: str) -> None:
    source, other = data(), data()
    source.setup()
    other.setup()
    other.load_state_dict(source.state_dict())
    changed = data()
    changed.setup()
    setattr(changed, table, getattr(changed, table).select(range(len(getattr(changed, table)))[::-1]))
    with pytest.raises(CheckpointError, match="training or dev examples have changed"):
        changed.load_state_dict(source.state_dict())


def test_weights_that_leave_one_row() -> None:
    class Light(CountingData):
        def load_train(self) -> Dataset:
            table = super().load_train()
            self.counts[-1].weight = 0.025
            return table

    with pytest.raises(DataError, match="1 training example left"):
        Light(batch_size=8, seed=1, train_size=40, dev_size=20, test_size=20).setup()
