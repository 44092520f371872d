"""The other processes of a run, ended by the first."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from lightning.pytorch import Trainer

from sts_lightning.core.signals import KILL
from sts_lightning.training.callbacks.checkpoints import stop_others


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
    observed = launcher.procs
    observed.append(other)
    stop_others(trainer)
    assert other.wait(10) == -KILL
    assert observed == []  # of Lightning's observer, which would kill this process
