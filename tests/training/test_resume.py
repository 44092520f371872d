"""A run that was stopped or killed, and resumed, ends with the numbers of an uninterrupted one."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lightning.pytorch.callbacks import Callback
from omegaconf import DictConfig

from sts_lightning import runs, train
from sts_lightning.errors import InterruptedRunError
from sts_lightning.train import train_in
from sts_lightning.training.callbacks import LastCheckpoint
from tests.conftest import ROOT
from tests.training.helpers import EPOCHS, same_results

Config = Callable[..., DictConfig]
Cli = Callable[..., subprocess.CompletedProcess[str]]


class StopAt(Callback):
    """Sends the interrupt that Ctrl-C sends, during a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_start(self, trainer: Any, *args: Any) -> None:
        if trainer.global_step + 1 == self.step:
            signal.raise_signal(signal.SIGINT)


def train_with(callback: Callback, run: Path, cfg: DictConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Train with one more callback, which the configuration does not know of."""
    make = train.make_trainer

    def make_with(*arguments: Any, **more: Any) -> Any:
        *front, callbacks, command = arguments
        return make(*front, [*callbacks, callback], command, **more)

    with monkeypatch.context() as patch:
        patch.setattr(train, "make_trainer", make_with)
        train_in(run, cfg)


@pytest.mark.parametrize("step", [1, 4, 7, 16, 17, 31])
def test_interrupted_and_resumed_equals_uninterrupted(
    step: int, uninterrupted: Path, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stops inside an epoch, at a dev evaluation (4), at its last step (16) and just behind it."""
    run = tmp_path / "run"
    with pytest.raises(
        InterruptedRunError, match=r"stopped by Ctrl-C after step \d+\. Resume with: .*resume="
    ):
        train_with(StopAt(step), run, config(*EPOCHS), monkeypatch)
    assert not (run / "metrics.json").exists()
    train_in(run, runs.load_config(run), resume=True)
    same_results(uninterrupted, run)


def test_slurms_warning_and_an_interrupt_together_save_the_step(
    uninterrupted: Path, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"

    class Warned(StopAt):
        def on_train_batch_start(self, trainer: Any, *args: Any) -> None:
            if trainer.global_step + 1 == self.step:
                signal.raise_signal(signal.SIGUSR2)
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(InterruptedRunError, match="stopped by SIGUSR2 after step 7"):
        train_with(Warned(7), run, config(*EPOCHS), monkeypatch)
    train_in(run, runs.load_config(run), resume=True)
    same_results(uninterrupted, run)


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
    done = cli("train.py", f"resume={run}")
    assert done.returncode == 0, done.stderr
    same_results(uninterrupted, run)


def test_killed_run_goes_on_from_its_last_checkpoint(
    uninterrupted: Path, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"

    class Crash(Callback):
        def on_train_batch_end(self, trainer: Any, *args: Any) -> None:
            if trainer.global_step == 13:
                raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        train_with(Crash(), run, config(*EPOCHS), monkeypatch)
    train_in(run, runs.load_config(run), resume=True)
    same_results(uninterrupted, run)


@pytest.mark.parametrize("step", [10, 20])
def test_killed_right_behind_a_checkpoint(
    step: int, uninterrupted: Path, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lightning has not logged step 10 by then, its row is in the history all the same; 20 is behind a dev
    evaluation.
    """
    run = tmp_path / "run"
    save = LastCheckpoint._save

    def cut(self: LastCheckpoint, trainer: Any) -> None:
        save(self, trainer)
        if trainer.global_step == step:
            raise RuntimeError("power cut")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="power cut"):
        patch.setattr(LastCheckpoint, "_save", cut)
        train_in(run, config(*EPOCHS))
    train_in(run, runs.load_config(run), resume=True)
    same_results(uninterrupted, run)


def test_killed_in_the_final_evaluation(
    uninterrupted: Path, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"

    def killed(*args: Any) -> None:
        raise RuntimeError("power cut")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="power cut"):
        patch.setattr(train, "encode_pairs", killed)
        train_in(run, config(*EPOCHS))
    trained = (run / "checkpoints" / "best.ckpt").read_bytes()
    train_in(run, runs.load_config(run), resume=True)
    assert (run / "checkpoints" / "best.ckpt").read_bytes() == trained
    same_results(uninterrupted, run)
