"""Data modules as a configuration builds them."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import pytest

from sts_lightning.data.data_set import DataSet, Splits
from sts_lightning.data.dev_and_tests import DevAndTests
from sts_lightning.data.module import DataModule
from sts_lightning.data.table import Table


def data_module(
    data_set: Callable[..., DataSet], *args: Any, batch_size: int = 4, seed: int = 1, **settings: Any
) -> DataModule:
    """The seed goes to the data set, too, where it takes one."""
    if "seed" in signature(data_set).parameters:
        settings["seed"] = seed
    return DataModule(data_set(*args, **settings), batch_size, seed)


def training(data_set: Callable[..., DataSet], *args: Any, **settings: Any) -> Splits:
    """What a data set reads for training, without the dev and test pairs that are added to it."""

    def alone(self: DevAndTests, train: Table, published: bool) -> Splits:
        return Splits(train, train, [])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DevAndTests, "complete", alone)
        return data_set(*args, **settings).read()
