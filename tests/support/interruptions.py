"""Callbacks that stop or cut a run at a step."""

from __future__ import annotations

import signal
from typing import Any

from lightning.pytorch.callbacks import Callback


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
