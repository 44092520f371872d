"""Runs that cannot be averaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from sts_lightning.config.trust import NOTHING
from sts_lightning.core.errors import CheckpointError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.average import read_parents
from tests.support.averaged_runs import write_run
from tests.support.run_entries import edit

LORA = {"_target_": "peft.LoraConfig", "r": 4, "target_modules": "all-linear"}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "first", 0.01, 1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model": {"adapter": LORA}}, "has an adapter .*not the mean of their products"),
        ({"model": {"hidden_size": 16}}, "has model.hidden_size=16, but .*first has"),
        ({"prompt": {"template": 'A "{sentence}"'}}, "has prompt.template="),
    ],
)
def test_another_kind_of_model(changed: Any, message: str, first: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", 0.01, 2, changed)
    with pytest.raises(CheckpointError, match=message):
        read_parents([first, other], NOTHING)


def test_other_dropout_is_the_same_model(first: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", 0.01, 2, {"model": {"dropout": 0.3}, "optim": {"lr": 1e-3}})
    assert len(read_parents([first, other], NOTHING)) == 2


def test_pairs_that_the_suite_of_the_first_holds_out(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, 0.01, 2) for name in ("one", "two")]
    data = {"_target_": "sts_lightning.data.sts_train.sts_train", "seed": 1}
    for run, dev in zip(runs, ("suite", "stsb"), strict=True):
        edit(RunFolder(run).config_file, lambda cfg, dev=dev: cfg.update(data=data, dev=dev))
    with pytest.raises(CheckpointError, match=r"two may have trained on dev pairs of .*one"):
        read_parents(runs, NOTHING)
    assert len(read_parents(runs[::-1], NOTHING)) == 2


def test_a_run_that_did_not_train_its_encoder(first: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", 0.01, 2)
    torch.save(
        {"state_dict": {"loss.head.weight": torch.ones(1)}, "global_step": 2},
        RunFolder(other).checkpoint("best"),
    )
    with pytest.raises(CheckpointError, match="other did not train its encoder"):
        read_parents([first, other], NOTHING)


def test_no_run_at_all(first: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is not a run folder"):
        read_parents([first, tmp_path / "absent"], NOTHING)


def test_weights_of_other_names(first: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", 0.01, 2)
    checkpoint = RunFolder(other).read_checkpoint("best")
    checkpoint["state_dict"].popitem()
    torch.save(checkpoint, RunFolder(other).checkpoint("best"))
    with pytest.raises(CheckpointError, match=r"other cannot be averaged with .*first: encoder.* missing"):
        read_parents([first, other], NOTHING)


def test_a_damaged_parent_is_rejected(first: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", 0.01, 2)
    path = RunFolder(other).checkpoint("best")
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 64] = bytes(64)
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="the check sum of its part"):
        read_parents([first, other], NOTHING)
