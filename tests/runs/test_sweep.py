"""Launchers of `-m`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.conftest import SHORT_RUN

Cli = Callable[..., subprocess.CompletedProcess[str]]


def test_a_sweep_through_the_command_line(cli: Cli, tmp_path: Path) -> None:
    command = ["train.py", "-m", *SHORT_RUN, "trainer.max_steps=2", "logger=csv"]
    runs = "runs/toy-pearson-tiny_bert"
    done = cli(*command, "seed=1", "optim.lr=-1,5e-5", "hydra.launcher.jobs=2")
    assert done.returncode == 1
    assert f"error: 1 of 2 jobs failed; see {runs}/" in done.stderr
    assert "Input should be greater than 0" in done.stdout + done.stderr
    (first,) = [path.parent for path in tmp_path.glob(f"{runs}/*/metrics.json")]
    before = (first / "metrics.json").read_bytes()
    again = cli(*command, "seed=1,2")
    assert again.returncode == 0, again.stderr
    assert "was done: " in again.stdout
    assert (first / "metrics.json").read_bytes() == before
    seeds = [json.loads(path.read_text())["seed"] for path in tmp_path.glob(f"{runs}/*/metrics.json")]
    assert sorted(seeds) == [1, 2]
    rejected = cli(*command, "seed=3", "trainer=gpu", "trainer.devices=2")
    assert rejected.returncode == 1
    assert "a job of the sweep needs 2 GPUs, but 0 are visible" in rejected.stderr
    assert (
        len([path for path in tmp_path.glob(f"{runs}/*") if path.is_dir()]) == 3
    )  # no folder for a job that was not started
