"""First runs from which several others start, trained for real."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sts_lightning.runs.folder import RunFolder
from tests.conftest import EXACT, ROOT
from tests.support.two_runs import write_experiments

Cli = Callable[..., subprocess.CompletedProcess[str]]

BOTH = [EXACT, "model=tiny_bert", "experiment=two", "logger=csv"]


@pytest.fixture(autouse=True)
def experiments(tmp_path: Path) -> None:
    """Two experiments, of which `two` starts from `one`."""
    write_experiments(tmp_path / "conf")


def start(folder: Path, *overrides: str) -> subprocess.Popen[str]:
    """Start both runs in the background."""
    return subprocess.Popen(
        [sys.executable, str(ROOT / "train.py"), *BOTH, *overrides],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def first_run(tmp_path: Path, *others: str) -> RunFolder:
    """The only first run."""
    (path,) = (path for path in (tmp_path / "runs").iterdir() if path.name not in others)
    return RunFolder(path)


def test_two_commands_at_once_train_the_first_run_once(tmp_path: Path) -> None:
    rates = ("1e-5", "1e-4")
    runs = [start(tmp_path, f"optim.lr={lr}", f"hydra.run.dir=runs/{lr}") for lr in rates]
    outputs = [run.communicate(timeout=300)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], outputs
    first = first_run(tmp_path, *rates)
    folder = f"runs/{first.path.name}"
    trained = [f"run folder {folder}" in output for output in outputs]
    assert sorted(trained) == [False, True]
    waited = outputs[trained.index(False)]
    assert f"waiting for {folder}, which pid" in waited or f"training one first: {folder}" not in waited
    steps = [row["step"] for row in first.history() if "train/loss" in row]
    assert len(steps) == len(set(steps))
    cost = first.metrics().details["wall_seconds"]
    for lr in rates:
        run = RunFolder(tmp_path / "runs" / lr)
        assert run.settings()["init_from"] == folder
        metrics = run.metrics()
        (earlier,) = metrics.details["earlier"]
        assert earlier["wall_seconds"] == cost
        assert metrics.total_seconds == metrics.details["wall_seconds"] + cost


def test_the_next_command_resumes_a_first_run_that_was_killed(tmp_path: Path, cli: Cli) -> None:
    first_long = (
        (tmp_path / "conf" / "experiment" / "one.yaml").read_text().replace("epochs: 1", "epochs: 20")
    )
    write_experiments(tmp_path / "conf", one=first_long)
    killed = start(tmp_path, "trainer.max_epochs=1", "hydra.run.dir=runs/a")
    deadline = time.monotonic() + 200
    while not list(tmp_path.glob("runs/*/checkpoints/last.ckpt")) and time.monotonic() < deadline:
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    first = first_run(tmp_path, "a")
    assert first.state == "interrupted"
    second = cli("train.py", *BOTH, "trainer.max_epochs=1", "optim.lr=1e-5", "hydra.run.dir=runs/b")
    assert second.returncode == 0, second.stderr
    assert "resuming after step" in second.stdout
    assert first.metrics().details["resumed"] is True
    assert RunFolder(tmp_path / "runs" / "b").finished
    again = cli("train.py", "resume=runs/a")
    assert again.returncode == 0, again.stderr
    assert RunFolder(tmp_path / "runs" / "a").finished


def test_a_sweep_trains_the_first_run_once_and_fails_with_it(tmp_path: Path, cli: Cli) -> None:
    sweep = ["train.py", "-m", *BOTH, "hydra.launcher.jobs=2", "optim.lr=1e-5,1e-4"]
    planned = cli(*sweep, "--plan")
    assert planned.returncode == 0, planned.stderr
    assert "3 jobs: 3 new" in planned.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["conf"]

    done = cli(*sweep)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\ndone: ") == 3
    assert done.stdout.count("\ndone: experiment=one ") == 1
    found = [json.loads(path.read_text()) for path in tmp_path.glob("runs/two/*/metrics.json")]
    assert sorted(len(each["earlier"]) for each in found) == [0, 1, 1]
    again = cli(*sweep, "--plan")
    assert "2 jobs: 2 done" in again.stdout

    failed = cli(*sweep, "model.hidden_size=7")
    assert failed.returncode == 1
    assert "1 of 3 jobs failed; 2 that start from them were not run" in failed.stderr
