"""A run that was killed, and resumed, ends with the numbers of an uninterrupted one."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig

from tests.conftest import ROOT
from tests.support.whole_runs import EPOCHS, same_results

Config = Callable[..., DictConfig]

Cli = Callable[..., subprocess.CompletedProcess[str]]


def test_sigkill_in_training(
    uninterrupted: Path, cli: Cli, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed from outside between two checkpoints, as by a machine that runs out of memory."""
    run = tmp_path / "run"
    command = [
        sys.executable,
        str(ROOT / "train.py"),
        *EPOCHS,
        "trainer.save_every=3",
        f"hydra.run.dir={run}",
    ]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (run / "checkpoints" / "last.ckpt").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert not (run / "metrics.json").exists()
    done = cli(*command[1:])
    assert done.returncode == 0, done.stderr
    same_results(uninterrupted, run)
