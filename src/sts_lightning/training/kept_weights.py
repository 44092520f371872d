"""Weights kept in the course of training."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Checkpoint

from sts_lightning.runs.folder import RunFolder


class KeptWeights(Checkpoint):
    """Saves the trained parameters before training and at regular intervals, and keeps all of them.

    Args:
        run: The run folder.
        every: Steps between the weights that are kept, at least 1.
        weights_only: Whether the state of the optimiser is left out.
    """

    def __init__(self, run: RunFolder, every: int, weights_only: bool = True) -> None:
        self.run = run
        self.every = every
        self.weights_only = weights_only

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Keep the untrained weights."""
        if trainer.global_step == 0:
            self._keep(trainer)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Keep the weights of a step that is due."""
        if trainer.global_step % self.every == 0:
            self._keep(trainer)

    def _keep(self, trainer: pl.Trainer) -> None:
        trainer.save_checkpoint(self.run.checkpoint(trainer.global_step), weights_only=self.weights_only)
