"""First stages that several runs share, trained for real."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from sts_lightning.runs.folder import RunFolder
from tests.conftest import ROOT, SHORT_RUN

Cli = Callable[..., subprocess.CompletedProcess[str]]

STAGES = [
    *SHORT_RUN,
    "name=both",
    "+stages.one.experiment=stage2",
    "+stages.two.experiment=stage2",
    "logger=csv",
    "evaluation.final=false",
    "trainer.val_every=null",
]


def start(folder: Path, *overrides: str) -> subprocess.Popen[str]:
    """Start a run that shares its first stage, in the background."""
    return subprocess.Popen(
        [sys.executable, str(ROOT / "train.py"), *STAGES, "--share-stages", *overrides],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def shared_stage(tmp_path: Path) -> RunFolder:
    """The only shared stage."""
    (path,) = (tmp_path / "runs" / "stages").iterdir()
    return RunFolder(path)


def test_two_runs_that_start_at_once_train_the_stage_once(tmp_path: Path) -> None:
    runs = [
        start(tmp_path, "trainer.max_steps=8", f"+stages.two.optim.lr={lr}", f"hydra.run.dir=runs/{lr}")
        for lr in ("1e-5", "1e-4")
    ]
    outputs = [run.communicate(timeout=300)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], outputs
    stage = shared_stage(tmp_path)
    folder = f"runs/stages/{stage.path.name}"
    trained = [f"run folder {folder}" in output for output in outputs]
    assert sorted(trained) == [False, True]
    waited = outputs[trained.index(False)]
    assert f"waiting for {folder}, a stage that pid" in waited or f"has finished: {folder}" in waited
    steps = [row["step"] for row in stage.history() if "train/loss" in row]
    assert len(steps) == len(set(steps))
    cost = stage.metrics().wall_seconds
    for lr in ("1e-5", "1e-4"):
        run = RunFolder(tmp_path / "runs" / lr)
        assert run.finished
        assert [folder.path for folder in run.stages()] == [stage.path, run.path / "two"]
        assert not (run.path / "one").exists()
        assert Path(str(run.last_stage().load_config().init_from)).name == stage.path.name
        metrics = run.last_stage().metrics()
        (earlier,) = metrics.details["earlier"]
        assert earlier["wall_seconds"] == cost
        assert metrics.total_seconds == (metrics.wall_seconds or 0) + (cost or 0)


def test_the_next_run_resumes_a_stage_that_was_killed(tmp_path: Path, cli: Cli) -> None:
    long = ["trainer.max_steps=60", "trainer.max_epochs=-1", "trainer.save_every=1", "--share-stages"]
    first = start(tmp_path, *long, "hydra.run.dir=runs/a")
    deadline = time.monotonic() + 200
    while not list(tmp_path.glob("runs/stages/*/checkpoints/last.ckpt")) and time.monotonic() < deadline:
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    stage = shared_stage(tmp_path)
    assert stage.resumable
    second = cli("train.py", *STAGES, *long, "+stages.two.seed=2", "hydra.run.dir=runs/b")
    assert second.returncode == 0, second.stderr
    assert "resuming after step" in second.stdout
    assert stage.metrics().details["resumed"] is True
    assert RunFolder(tmp_path / "runs" / "b").finished
    again = cli("train.py", "resume=runs/a")
    assert again.returncode == 0, again.stderr
    assert f"has finished: runs/stages/{stage.path.name}" in again.stdout
    assert RunFolder(tmp_path / "runs" / "a").finished


def test_a_sweep_shares_the_stage_and_fails_with_it(tmp_path: Path, cli: Cli) -> None:
    sweep = ["train.py", "-m", *STAGES, "trainer.max_steps=2", "hydra.launcher.jobs=2"]
    grid = "+stages.two.optim.lr=1e-5,1e-4"
    planned = cli(*sweep, grid, "--plan")
    assert planned.returncode == 0, planned.stderr
    assert "1 shared stage, 2 jobs: 3 new" in planned.stdout
    assert list(tmp_path.iterdir()) == []

    done = cli(*sweep, grid)
    assert done.returncode == 0, done.stderr
    (stage,) = (tmp_path / "runs" / "both" / "stages").iterdir()
    assert done.stdout.count("\ndone: ") == 3
    assert done.stdout.count("\ndone: one of ") == 1
    folders = [path.parent for path in tmp_path.glob("runs/both/*/stages.yaml")]
    assert len(folders) == 2
    for folder in folders:
        assert json.loads((folder / "two" / "metrics.json").read_text())["earlier"][0]["run"].endswith(
            stage.name
        )
    again = cli(*sweep, grid, "--plan")
    assert "2 jobs: 2 done" in again.stdout

    failed = cli(*sweep, grid, "data.train_size=0")
    assert failed.returncode == 1
    assert "1 of 3 jobs failed; 2 that start from them were not run" in failed.stderr
