"""What is removed of finished runs, and what is not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from sts_lightning.errors import CheckpointError, RunningElsewhereError
from sts_lightning.runs.cleaning import Leftover, drop, find_leftovers
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.lock import locked
from sts_lightning.runs.metrics import RunMetrics

WEIGHTS = {"encoder.weight": torch.arange(1000.0)}
MOMENTS = {"state": {0: {"exp_avg": torch.ones(1000), "exp_avg_sq": torch.ones(1000)}}, "param_groups": []}


def write(path: Path, finished: bool = True) -> RunFolder:
    run = RunFolder(path)
    run.checkpoints.mkdir(parents=True)
    run.save_config(OmegaConf.create({"seed": 1, "model": {"_target_": "x"}, "prompt": {}, "evaluation": {}}))
    weights = {"state_dict": WEIGHTS, "global_step": 7, "epoch": 1, "pytorch-lightning_version": "2.6.6"}
    torch.save(weights, run.checkpoint("best"))
    torch.save(
        weights
        | {"optimizer_states": [MOMENTS], "lr_schedulers": [{"last_epoch": 7}], "callbacks": {"a": {"b": 1}}},
        run.checkpoint("last"),
    )
    if finished:
        run.save_metrics(RunMetrics(None, {"spearman": 80.0, "pearson": 80.0}))
    return run


def leftovers(root: Path) -> list[Leftover]:
    found = list(find_leftovers(root))
    assert all(isinstance(one, Leftover) for one in found)
    return [one for one in found if isinstance(one, Leftover)]


def test_the_optimiser_goes_and_the_weights_stay(tmp_path: Path) -> None:
    run = write(tmp_path / "run")
    best = run.checkpoint("best").read_bytes()
    (found,) = leftovers(tmp_path)
    assert (found.run, found.unneeded) == (run, 8000)
    assert drop(found) == found.size - run.checkpoint("last").stat().st_size > 8000
    last = run.read_checkpoint("last")
    assert torch.equal(last["state_dict"]["encoder.weight"], WEIGHTS["encoder.weight"])
    assert last["global_step"] == 7
    assert set(last) == {"state_dict", "global_step", "epoch", "pytorch-lightning_version"}
    assert run.checkpoint("best").read_bytes() == best
    assert {path.name for path in run.checkpoints.iterdir()} == {"best.ckpt", "last.ckpt"}
    assert leftovers(tmp_path) == []


def test_a_run_that_can_be_resumed_is_left_alone(tmp_path: Path) -> None:
    write(tmp_path / "cut", finished=False)
    assert leftovers(tmp_path) == []


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    run = write(tmp_path / "run")
    (found,) = leftovers(tmp_path)
    before = run.checkpoint("last").read_bytes()
    with locked(run.path), pytest.raises(RunningElsewhereError):
        drop(found)
    assert run.checkpoint("last").read_bytes() == before


def test_stages_are_found_once_and_only_if_finished(tmp_path: Path) -> None:
    whole = RunFolder(tmp_path / "whole")
    write(tmp_path / "whole" / "own")
    write(tmp_path / "stages" / "abc")
    config = OmegaConf.create({"seed": 1})
    whole.save_stages({"shared": config, "own": config}, {"shared": "abc"})
    names = {one.run.path.relative_to(tmp_path).as_posix() for one in leftovers(tmp_path)}
    assert names == {"stages/abc", "whole/own"}
    assert len(leftovers(tmp_path)) == 2


def test_what_cannot_be_read_is_named_and_the_rest_is_found(tmp_path: Path) -> None:
    write(tmp_path / "a").checkpoint("last").write_bytes(b"broken")
    write(tmp_path / "b")
    error, found = find_leftovers(tmp_path)
    assert isinstance(error, CheckpointError)
    assert str(tmp_path / "a" / "checkpoints" / "last.ckpt") in str(error)
    assert isinstance(found, Leftover)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    run, other = write(tmp_path / "here" / "run"), write(tmp_path / "elsewhere")
    run.checkpoint("last").unlink()
    run.checkpoint("last").symlink_to(other.checkpoint("last"))
    assert leftovers(tmp_path / "here") == []


def test_a_link_to_the_checkpoints_of_another_run_is_not_followed(tmp_path: Path) -> None:
    run, other = write(tmp_path / "here" / "run"), write(tmp_path / "elsewhere")
    shutil.rmtree(run.checkpoints)
    run.checkpoints.symlink_to(other.checkpoints)
    assert leftovers(tmp_path / "here") == []
