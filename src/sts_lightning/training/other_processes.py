"""The processes that the first process of a run has started on its machine."""

from __future__ import annotations

import contextlib
import subprocess

import lightning.pytorch as pl
from lightning.pytorch.strategies.launchers import _SubprocessScriptLauncher

from sts_lightning.interrupts import KILL

PATIENCE = 10
"""Seconds to wait for the end of a process that has been killed."""


def stop_others(trainer: pl.Trainer) -> None:
    """End the other processes that this one has started on its machine, at once.

    Once this process has failed they would wait for it in the middle of an exchange, where no other signal
    reaches them. They write nothing. Lightning forgets them too: every five seconds it looks whether one has
    failed and kills this process then, whatever it still has to say or to hand to its loggers.
    """
    launcher = trainer.strategy.launcher
    if isinstance(launcher, _SubprocessScriptLauncher):
        launcher.kill(KILL)
        for process in launcher.procs:
            with contextlib.suppress(subprocess.TimeoutExpired):  # one that a driver holds on to
                process.wait(PATIENCE)
        launcher.procs.clear()
