"""Exponential moving average of the weights."""

from __future__ import annotations

from functools import partial
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import EMAWeightAveraging
from torch import Tensor


class WeightEMA(EMAWeightAveraging):
    r"""Evaluates and keeps an average of the weights, :math:`\bar w \leftarrow \bar w + (1 - d)(w - \bar w)`.

    Lightning's callback also averages frozen weights, which change by rounding, or altogether where they
    are packed integers (4 bits), and it reads checkpoints without them as those of another model.

    Args:
        device: Device of the average; by default that of the model.
        use_buffers: Whether buffers are averaged too; otherwise they are those of the model.
        decay: :math:`d`, in [0, 1].
        update_every_n_steps: Steps between updates.
        update_starting_at_step: First step of an update.
        update_starting_at_epoch: First epoch of an update.
    """

    def __init__(
        self,
        device: str | int | None = None,
        use_buffers: bool = False,
        decay: float = 0.98,
        update_every_n_steps: int = 1,
        update_starting_at_step: int | None = None,
        update_starting_at_epoch: int | None = None,
    ) -> None:
        super().__init__(
            device,
            use_buffers,
            decay,
            update_every_n_steps,
            update_starting_at_step,
            update_starting_at_epoch,
        )
        self._kwargs["avg_fn"] = partial(_average, 1 - decay)

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Load the average and the current weights, of which frozen ones are not in the checkpoint."""
        average = {f"module.{name}": value for name, value in checkpoint["state_dict"].items()}
        assert self._average_model is not None  # made before a checkpoint is read
        self._average_model.load_state_dict(average | checkpoint["averaging_state"], strict=False)
        pl_module.load_state_dict(checkpoint["current_model_state"], strict=False)


def _average(share: float, average: Tensor, current: Tensor, count: Tensor | int) -> Tensor:
    """Move the average; equal values stay as they are, and integers are those of the model."""
    return average.lerp(current, share) if average.is_floating_point() else current
