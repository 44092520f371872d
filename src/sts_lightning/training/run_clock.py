"""How long a run has taken, whatever interrupted it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback


class RunClock(Callback):
    """Counts the seconds of a run from now on; one that is resumed adds those up to its last checkpoint.

    What an interrupted run did after that checkpoint is done again, and counted once. Lightning's ``Timer``
    leaves out reading the data, loading the weights and the final evaluation.
    """

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._before: float | None = 0.0

    @property
    def seconds(self) -> float | None:
        """Duration so far in seconds; None if the checkpoint that the run resumed from does not tell."""
        return None if self._before is None else self._before + time.monotonic() - self._started

    def state_dict(self) -> dict[str, Any]:
        """Return the duration up to a checkpoint."""
        return {"seconds": self.seconds}

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: Mapping[str, Any]
    ) -> None:
        """Add the duration up to the checkpoint that the run resumes from."""
        seconds = checkpoint["callbacks"].get(self.state_key, {}).get("seconds")
        self._before = float(seconds) if isinstance(seconds, int | float) else None
