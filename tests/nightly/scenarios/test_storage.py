"""Disks that are full or read-only: nothing that was finished is lost, and the message says what to do."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import DictConfig

from sts_lightning.core import files
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.start import train_in
from tests.conftest import SHORT_RUN
from tests.support.whole_runs import metrics

Cli = Callable[..., subprocess.CompletedProcess[str]]


def full(*args: Any, **kwargs: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_results_that_could_not_be_written_are_computed_again(
    config: Callable[..., DictConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = [*SHORT_RUN, "data.batch_size=16", "trainer.max_epochs=1", "logger=csv"]
    train_in(tmp_path / "whole", config(*settings))
    run = tmp_path / "cut"
    write = files.Path.write_text

    def refuse(self: Path, *args: Any, **kwargs: Any) -> int:
        return full() or 0 if self.name.startswith(".metrics.json") else write(self, *args, **kwargs)

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(files.Path, "write_text", refuse)
        train_in(run, config(*settings))
    assert not (run / "metrics.json").exists()
    train_in(run, RunFolder(run).load_config(), resume=True)
    for key in ("dev", "test", "best_step"):
        assert metrics(run)[key] == metrics(tmp_path / "whole")[key]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with room for little more than a checkpoint."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("mounting a small disk needs Linux and root")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", str(folder)], check=False)
    if mounted.returncode != 0:
        pytest.skip("no small disk can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_and_then_a_read_only_disk(small_disk: Path, cli: Cli) -> None:
    settings = [
        *SHORT_RUN,
        "data.batch_size=16",
        "trainer.max_epochs=1",
        "trainer.save_every=4",
        "logger=csv",
    ]
    done = cli("train.py", *settings, f"hydra.run.dir={small_disk / 'run'}", "model.hidden_size=96")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("error: ") and ": No space left on device" in done.stderr
    for path in small_disk.rglob("*.ckpt"):
        assert "state_dict" in torch.load(path, map_location="cpu", weights_only=True)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    refused = cli("train.py", *settings, f"hydra.run.dir={small_disk / 'other'}")
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr
    assert refused.stderr.startswith("error: ") and "Read-only file system" in refused.stderr
