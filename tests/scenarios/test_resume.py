"""A run that was stopped or killed, and resumed, ends with the numbers of an uninterrupted one."""

from __future__ import annotations

import shutil
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

from sts_lightning.errors import CheckpointError, ConfigError, InterruptedRunError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.training.recorder import RunRecorder
from sts_lightning.workflows import report, train
from sts_lightning.workflows.train import train_in
from tests.conftest import ROOT
from tests.scenarios.helpers import EPOCHS, same_results

Config = Callable[..., DictConfig]
Cli = Callable[..., subprocess.CompletedProcess[str]]


class PowerCut(Callback):
    """Fails before the step after the given one."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_start(self, trainer: Any, *args: Any) -> None:
        if trainer.global_step == self.step:
            raise RuntimeError("power cut")


class StopAt(Callback):
    """Sends a signal during a step: by default the one that Ctrl-C sends."""

    def __init__(self, step: int, number: signal.Signals = signal.SIGINT) -> None:
        self.step = step
        self.number = number

    def on_train_batch_start(self, trainer: Any, *args: Any) -> None:
        if trainer.global_step + 1 == self.step:
            signal.raise_signal(self.number)


class StopInEvaluation(Callback):
    """Sends SIGTERM during the dev evaluation after a step; 0 is the one before training."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_validation_batch_start(self, trainer: Any, *args: Any) -> None:
        if trainer.global_step == self.step:
            signal.raise_signal(signal.SIGTERM)


@pytest.mark.parametrize("step", [1, 4, 7, 16, 17, 31])
def test_interrupted_and_resumed_equals_uninterrupted(
    step: int, uninterrupted: Path, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stops inside an epoch, at a dev evaluation (4), at its last step (16) and right after it."""
    run = tmp_path / "run"
    with pytest.raises(
        InterruptedRunError, match=r"stopped by Ctrl-C after step \d+\. Resume with: .*resume="
    ):
        train_in(run, config(*EPOCHS), callbacks=[StopAt(step)])
    assert not (run / "metrics.json").exists()
    train_in(run, RunFolder(run).load_config(), resume=True)
    same_results(uninterrupted, run)


@pytest.mark.parametrize(("step", "stopped_after"), [(7, 7), (16, 15), (20, 20), (32, 32)])
def test_sigterm_saves_the_step(
    step: int,
    stopped_after: int,
    uninterrupted: Path,
    config: Config,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Inside an epoch, before a step when the one before was just saved, at a dev evaluation, at the end."""
    run = tmp_path / "run"
    with pytest.raises(InterruptedRunError) as caught:
        train_in(run, config(*EPOCHS), callbacks=[StopAt(step, signal.SIGTERM)])
    assert f"stopped by SIGTERM after step {stopped_after}. Resume with: " in str(caught.value)
    assert caught.value.exit_status == 143
    assert "SIGTERM: stopping after this step;" in caplog.text
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    train_in(run, RunFolder(run).load_config(), resume=True)
    same_results(uninterrupted, run)


def test_sigterm_in_a_dev_evaluation_saves_after_it(
    uninterrupted: Path,
    config: Config,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = tmp_path / "run"
    with pytest.raises(InterruptedRunError, match=r"stopped by SIGTERM after step 8\."):
        train_in(run, config(*EPOCHS), callbacks=[StopInEvaluation(8)])
    assert "SIGTERM: stopping after the dev evaluation that is running;" in caplog.text
    train_in(run, RunFolder(run).load_config(), resume=True)
    same_results(uninterrupted, run)


def test_a_second_sigterm_stops_at_once(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Twice(StopAt):
        def on_train_batch_start(self, trainer: Any, *args: Any) -> None:
            if trainer.global_step + 1 == self.step:
                signal.raise_signal(signal.SIGTERM)
                signal.raise_signal(signal.SIGTERM)

    run = tmp_path / "run"
    with pytest.raises(InterruptedRunError, match=r"stopped by SIGTERM\. Resume with: .* resume=") as caught:
        train_in(run, config(*EPOCHS), callbacks=[Twice(7)])
    assert caught.value.exit_status == 143
    assert RunFolder(run).read_checkpoint("last")["global_step"] == 5


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_stopped_while_loading_leaves_nothing(
    number: signal.Signals, status: int, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "build_encoder", lambda *_: signal.raise_signal(number))
    with pytest.raises(
        InterruptedRunError, match=r"before anything was written\. The same command"
    ) as caught:
        train_in(tmp_path / "run", config(*EPOCHS))
    assert caught.value.exit_status == status
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("resume", [False, True])
def test_stopped_in_the_first_evaluation_and_started_again(
    resume: bool,
    uninterrupted: Path,
    config: Config,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = tmp_path / "run"
    with pytest.raises(InterruptedRunError, match=r"before the first checkpoint\. Start it again") as caught:
        train_in(run, config(*EPOCHS), callbacks=[StopInEvaluation(0)])
    assert caught.value.exit_status == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    with pytest.raises(ConfigError, match=r"started with other values of data\.seed, seed; .* resume="):
        train_in(run, config(*EPOCHS, "seed=2"))
    with caplog.at_level("INFO"):
        train_in(run, RunFolder(run).load_config() if resume else config(*EPOCHS), resume=resume)
    assert caplog.text.count("has no checkpoint yet: starting it again from the beginning.") == 1
    same_results(uninterrupted, run)


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


def test_an_error_before_training_leaves_nothing(config: Config, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"trainer\.extra"):
        train_in(tmp_path / "run", config(*EPOCHS, "+trainer.extra.no_such_option=1"))
    assert list(tmp_path.iterdir()) == []


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
    assert f"remove {run / 'checkpoints'} to start the run again" in message
    if name == "last.ckpt":
        shutil.rmtree(run / "checkpoints")
        train_in(run, RunFolder(run).load_config(), resume=True)
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
        train_in(run, config(*EPOCHS), callbacks=[Warned(7)])
    train_in(run, RunFolder(run).load_config(), resume=True)
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
    """Lightning has not logged step 10 by then, its row is in the history all the same; 20 is after a dev
    evaluation.
    """
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


def test_sigterm_in_the_final_evaluation(
    uninterrupted: Path, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    with monkeypatch.context() as patch, pytest.raises(InterruptedRunError) as caught:
        patch.setattr(report, "encode_pairs", lambda *_: signal.raise_signal(signal.SIGTERM))
        train_in(run, config(*EPOCHS))
    assert "stopped by SIGTERM. Resume with: " in str(caught.value)
    assert caught.value.exit_status == 143
    train_in(run, RunFolder(run).load_config(), resume=True)
    same_results(uninterrupted, run)


def test_killed_in_the_final_evaluation(
    uninterrupted: Path, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"

    def killed(*args: Any) -> None:
        raise RuntimeError("power cut")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="power cut"):
        patch.setattr(report, "encode_pairs", killed)
        train_in(run, config(*EPOCHS))
    trained = (run / "checkpoints" / "best.ckpt").read_bytes()
    train_in(run, RunFolder(run).load_config(), resume=True)
    assert (run / "checkpoints" / "best.ckpt").read_bytes() == trained
    same_results(uninterrupted, run)
