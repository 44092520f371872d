"""A run that was killed, and resumed, ends with the numbers of an uninterrupted one."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sts_lightning.core.errors import CheckpointError
from sts_lightning.evaluation import score
from sts_lightning.runs.folder import RunFolder
from sts_lightning.training.callbacks.checkpoints import RunRecorder
from sts_lightning.workflows import report
from sts_lightning.workflows.start import train_in
from tests.conftest import ROOT
from tests.runs.test_killed import Cli, Config
from tests.support.interruptions import PowerCut
from tests.support.whole_runs import EPOCHS, same_results


def test_killed_between_the_first_dev_evaluation_and_the_first_checkpoint(
    uninterrupted: Path, config: Config, tmp_path: Path
) -> None:
    """best.ckpt and rows of the history are there already; they are those of the cut attempt."""
    run = tmp_path / "run"

    with pytest.raises(RuntimeError, match="power cut"):
        train_in(run, config(*EPOCHS), callbacks=[PowerCut(4)])
    assert RunFolder(run).checkpoint("best").exists()
    assert not RunFolder(run).checkpoint("last").exists()
    train_in(run, config(*EPOCHS))
    same_results(uninterrupted, run)


@pytest.mark.parametrize(
    ("name", "damage"),
    [("best.ckpt", "missing"), ("best.ckpt", "cut"), ("last.ckpt", "cut")],
)
def test_a_damaged_checkpoint_is_named_with_a_remedy(
    name: str, damage: str, uninterrupted: Path, config: Config, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(uninterrupted, run)
    (run / "metrics.json").unlink()
    path = run / "checkpoints" / name
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(CheckpointError) as caught:
        train_in(run, RunFolder(run).load_config(), resume=True)
    message = str(caught.value)
    assert str(path) in message
    assert "before its first checkpoint" not in message
    assert f"remove {run / 'checkpoints'} to start again" in message
    if name == "last.ckpt":
        shutil.rmtree(run / "checkpoints")
        train_in(run, RunFolder(run).load_config(), resume=True)
        same_results(uninterrupted, run)


def test_sigkill_before_the_first_checkpoint(
    uninterrupted: Path, cli: Cli, config: Config, tmp_path: Path
) -> None:
    """The same command, and resume= on a copy, end with the numbers of an uninterrupted run."""
    run = tmp_path / "run"
    arguments = [*EPOCHS, f"hydra.run.dir={run}"]
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "train.py"), *arguments],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while not (run / "config.yaml").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert not (run / "checkpoints" / "last.ckpt").exists()
    shutil.copytree(run, tmp_path / "copy")
    done = cli("train.py", *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("has no checkpoint yet: starting it again from the beginning.") == 1
    same_results(uninterrupted, run)
    copy = tmp_path / "copy"
    train_in(copy, RunFolder(copy).load_config(), resume=True)
    same_results(uninterrupted, copy)


def test_two_commands_race_for_one_folder(uninterrupted: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [sys.executable, str(ROOT / "train.py"), *EPOCHS, "data.test_size=4000", f"hydra.run.dir={run}"]
    racers = [
        subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    errors = {racer.returncode: error for racer in racers for _, error in [racer.communicate(timeout=240)]}
    assert errors.keys() == {0, 75}, errors
    winner = next(racer.pid for racer in racers if racer.returncode == 0)
    assert f"another process is running in {run} (pid {winner} on host " in errors[75]
    assert "Traceback" not in errors[75]
    assert (run / "train.log").read_text().count("selected step") == 1


def test_killed_run_resumes_from_its_last_checkpoint(
    uninterrupted: Path, config: Config, tmp_path: Path
) -> None:
    run = tmp_path / "run"

    with pytest.raises(RuntimeError, match="power cut"):
        train_in(run, config(*EPOCHS), callbacks=[PowerCut(13)])
    train_in(run, RunFolder(run).load_config(), resume=True)
    same_results(uninterrupted, run)


@pytest.mark.parametrize("step", [10, 20])
def test_killed_right_after_a_checkpoint(
    step: int, uninterrupted: Path, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Step 20 has a dev evaluation; loggers get the metrics of 10 only later, the history has them."""
    run = tmp_path / "run"
    save = RunRecorder._save

    def cut(self: RunRecorder, trainer: Any) -> None:
        save(self, trainer)
        if trainer.global_step == step:
            raise RuntimeError("power cut")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="power cut"):
        patch.setattr(RunRecorder, "_save", cut)
        train_in(run, config(*EPOCHS))
    train_in(run, RunFolder(run).load_config(), resume=True)
    same_results(uninterrupted, run)


@pytest.mark.usefixtures("keeps_state")
def test_killed_in_the_final_evaluation(
    uninterrupted: Path, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"

    def killed(*args: Any) -> None:
        raise RuntimeError("power cut")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="power cut"):
        patch.setattr(score, "encode_tables", killed)
        train_in(run, config(*EPOCHS))
    trained = (run / "checkpoints" / "best.ckpt").read_bytes()
    train_in(run, RunFolder(run).load_config(), resume=True)
    assert (run / "checkpoints" / "best.ckpt").read_bytes() == trained
    same_results(uninterrupted, run)


def test_killed_before_the_results_are_whole(
    uninterrupted: Path, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run has finished only once its results are written; one killed while writing leaves no parts."""
    run = tmp_path / "run"

    def killed(*args: Any) -> None:
        raise RuntimeError("power cut")

    shutil.copytree(uninterrupted, run)
    shutil.rmtree(run / "plots")
    (run / "metrics.json").unlink()
    (run / "checkpoints" / ".best.ckpt.1").touch()
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="power cut"):
        patch.setattr(report, "origin", killed)
        train_in(run, RunFolder(run).load_config(), resume=True)
    assert not (run / "metrics.json").exists()
    train_in(run, RunFolder(run).load_config(), resume=True)
    assert {path.name for path in (run / "plots").iterdir()} == {"curves.png", "dev_cosines.png"}
    assert not (run / "checkpoints" / ".best.ckpt.1").exists()
    same_results(uninterrupted, run)
