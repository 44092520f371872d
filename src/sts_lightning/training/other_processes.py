"""The processes that the first process of a run has started on its machine."""

from __future__ import annotations

import lightning.pytorch as pl
from lightning.pytorch.strategies.launchers import _SubprocessScriptLauncher

from sts_lightning.interrupts import KILL


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
            process.wait()
        launcher.procs.clear()
