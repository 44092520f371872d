"""Callbacks of Lightning's own that do not go with the framework, and metrics that do not exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from omegaconf import DictConfig

from sts_lightning.config.keys import suggest
from sts_lightning.errors import ConfigError
from sts_lightning.evaluation.dev_scores import MONITOR

NOT_HERE = {
    "GradientAccumulationScheduler": (
        "adds up the losses of small batches, which is not the loss of a large one; raise data.batch_size "
        "instead (trainer.chunk_tokens bounds the tokens encoded at a time)."
    ),
    "StochasticWeightAveraging": (
        "puts its average in place after the last dev evaluation, so that it is never selected; use "
        "callbacks=ema or trainer.wise_ft."
    ),
    "LearningRateFinder": "trains before the run; sweep the rate instead: -m optim.lr=2e-5,5e-5,1e-4.",
    "BatchSizeFinder": "changes the loss with the batch; trainer.chunk_tokens bounds its memory.",
}
"""Callbacks of Lightning's that do not go with the framework, and why."""


TRAIN = ("train/loss", "train/regularizer")
"""Metrics of the training that may end it."""


def check_callback(name: str, callback: Callback) -> None:
    """Reject a callback of Lightning's that would change the loss or the selection unnoticed, or fail late.

    Args:
        name: Name of the callback in the group ``callbacks``.
        callback: The callback.

    Raises:
        ConfigError: See above.
    """
    key, kind = f"callbacks.{name}", type(callback).__name__
    if kind in NOT_HERE:
        raise ConfigError(f"{key}: {kind} {NOT_HERE[kind]}", key=key)
    if isinstance(callback, ModelCheckpoint) and callback.monitor == MONITOR:
        raise ConfigError(
            f"{key}: the run keeps the weights of the best {MONITOR} itself.",
            key=key,
            hint="trainer.keep_every=N keeps the weights of every N-th step too.",
        )


def check_monitors(cfg: DictConfig, callbacks: Sequence[Callback], found: Mapping[str, object]) -> None:
    """Reject early stopping by a dev metric that does not exist, before the first step.

    Args:
        cfg: Configuration of the run.
        callbacks: Its callbacks, in the order of the configuration; then others.
        found: Metrics of the dev evaluation before training.

    Raises:
        ConfigError: See above.
    """
    for name, callback in zip(cfg.callbacks, callbacks, strict=False):
        monitor = str(callback.monitor) if isinstance(callback, EarlyStopping) else None
        if monitor is None or monitor in found or monitor in TRAIN:
            continue
        known = [*sorted(key for key in found if key.startswith("dev/")), *TRAIN]
        raise ConfigError(
            f"callbacks.{name}.monitor={monitor} is not measured where early stopping decides.",
            key=f"callbacks.{name}.monitor",
            hint=suggest(monitor, known) or f"There are: {', '.join(known)}.",
        )
