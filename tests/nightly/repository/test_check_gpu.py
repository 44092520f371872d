"""What of `make check-gpu` needs no GPU, and its rehearsal on a CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import check_gpu
import pytest
from omegaconf import DictConfig

from sts_lightning.config.check import check_config
from sts_lightning.planning.cost import CARDS
from tests.conftest import ROOT
from tests.nightly.repository.test_makefile import commands
from tests.unit.repository.test_check_gpu import check_plan, step

SCRIPT = ROOT / "benchmarks" / "check_gpu.py"


def test_without_a_gpu_it_says_so_and_fails(tmp_path: Path) -> None:
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, str(SCRIPT), "--report", str(tmp_path / "report.md")]
    done = subprocess.run(command, env=hidden, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "No CUDA device is visible to torch: nothing was checked. " in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_the_target_of_the_makefile(tmp_path: Path) -> None:
    assert commands("check-gpu", tmp_path / "venv").rstrip().endswith("benchmarks/check_gpu.py")


def test_a_step_passes_fails_or_is_stopped_with_what_it_started(tmp_path: Path) -> None:
    passed = check_gpu.perform(step(), ["sh", "-c", "echo much; echo seen: 7 s"])
    failed = check_gpu.perform(step(), ["sh", "-c", "echo why >&2; exit 3"])
    started = tmp_path / "started"
    late = f"sleep 60 & echo $! > {started}; echo half; wait"
    stopped = check_gpu.perform(step(limit=1), ["sh", "-c", late])
    assert [(found.ok, found.seen) for found in (passed, failed, stopped)] == [
        (True, "7 s"),
        (False, "why"),
        (False, "stopped after 1 s: half"),
    ]
    assert 1 <= stopped.seconds < 30
    state = Path("/proc") / started.read_text().strip() / "stat"
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize("rehearse", [False, True])
def test_the_settings_of_each_run_compose(
    rehearse: bool, tmp_path: Path, config: Callable[..., DictConfig]
) -> None:
    bench = check_gpu.Bench(tmp_path, rehearse)
    for name in check_gpu.RUNS:
        cfg = check_config(config(*bench.settings(name)))
        assert cfg.trainer.accelerator == "cpu" or not rehearse, name


@pytest.mark.parametrize("card", CARDS)
def test_each_card_has_time_for_its_steps(card: str, tmp_path: Path) -> None:
    check_plan(card, tmp_path)


def test_the_rehearsal_runs_whole(tmp_path: Path) -> None:
    """Each command with its settings: what fails here would fail on a GPU."""
    report = tmp_path / "report.md"
    command = [sys.executable, str(SCRIPT), "--rehearse", "--report", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    rows = [line[2:-2].split(" | ") for line in report.read_text().splitlines() if line.startswith("|")]
    outcome = {row[0]: row[-1] for row in rows[2:]}
    assert outcome == {found.name: "" if found.gpu else "yes" for found in check_gpu.STEPS}
    assert list(tmp_path.iterdir()) == [report]
