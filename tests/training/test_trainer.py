"""Length of a run, and Lightning's Trainer for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from lightning.pytorch import Trainer
from omegaconf import DictConfig

from sts_lightning.interrupts import KILL, PARENT
from sts_lightning.training.trainer import _environment, make_plan, stop_others

Config = Callable[..., DictConfig]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ([], (85, 170, 21)),
        (["trainer.max_steps=20"], (85, 20, 20)),
        (["trainer.limit_train_batches=10", "trainer.val_every=0.5"], (10, 20, 5)),
        (["trainer.val_every=30"], (85, 170, 30)),
        (["trainer.max_epochs=-1", "trainer.max_steps=300"], (85, 300, 21)),
    ],
)
def test_plan(overrides: list[str], expected: tuple[int, int, int], config: Config) -> None:
    plan = make_plan(config(*overrides).trainer, 85)
    assert (plan.epoch_steps, plan.total_steps, plan.val_steps) == expected


def test_lightning_does_not_requeue_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would save in the middle of a step; and within a sweep the job is not that of the run."""
    for name in ("SLURM_NTASKS", "SLURM_JOB_NAME", PARENT, "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    assert _environment() == []
    monkeypatch.setenv("SLURM_NTASKS", "1")
    (environment,) = _environment()
    assert environment.auto_requeue is False  # type: ignore[attr-defined]
    monkeypatch.setenv(PARENT, "1")
    (environment,) = _environment()
    assert type(environment).__name__ == "LightningEnvironment"
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    assert _environment() == []


@pytest.mark.slow
def test_the_others_are_ended_at_once() -> None:
    """Even one that ignores signals, as a process that waits in an exchange does."""
    trainer = Trainer(accelerator="cpu", devices=2, strategy="ddp", logger=False, enable_checkpointing=False)
    ignoring = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); input()"
    other = subprocess.Popen(
        [sys.executable, "-c", ignoring], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    other.stdout.readline()
    launcher: Any = trainer.strategy._configure_launcher() or trainer.strategy.launcher
    launcher.procs = [other]
    stop_others(trainer)
    assert other.wait(10) == -KILL


def test_a_single_process_has_no_others() -> None:
    stop_others(Trainer(accelerator="cpu", devices=1, logger=False, enable_checkpointing=False))
