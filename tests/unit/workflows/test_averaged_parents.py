"""Runs that cannot be averaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sts_lightning.core.errors import CheckpointError
from sts_lightning.models.loading.run import load
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.average import Parent, read_parents
from tests.support.averaged_runs import write_run

LORA = {"_target_": "peft.LoraConfig", "r": 4, "target_modules": "all-linear"}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "first", 0.01, 1)


def parents(runs: list[Path]) -> list[Parent]:
    return read_parents(runs, load(runs[0]))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model": {"adapter": LORA}}, "has an adapter .*not the mean of their products"),
        ({"model": {"hidden_size": 16}}, "37 of 37 weights differ in name or shape"),
        ({"prompt": {"template": 'A "{sentence}"'}}, "has template=.* has None; only runs of the same model"),
    ],
)
def test_another_kind_of_model(changed: Any, message: str, first: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", 0.01, 2, changed)
    with pytest.raises(CheckpointError, match=message):
        parents([first, other])


def test_other_dropout_is_the_same_model(first: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", 0.01, 2, {"model": {"dropout": 0.3}, "optim": {"lr": 1e-3}})
    assert len(parents([first, other])) == 2


def test_no_run_at_all(first: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is not a run folder"):
        parents([first, tmp_path / "absent"])


def test_a_run_whose_results_cannot_be_read(first: Path, tmp_path: Path) -> None:
    """What it was trained on would be missing in the average."""
    other = write_run(tmp_path / "other", 0.01, 2)
    RunFolder(other).metrics_file.write_text("{")
    with pytest.raises(CheckpointError, match=r"metrics\.json is broken"):
        parents([first, other])
