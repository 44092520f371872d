"""Watches rank, alignment and uniformity of the dev sentences while training."""

from __future__ import annotations

import logging
from typing import Any

import lightning.pytorch as pl
import numpy as np
from lightning.pytorch.callbacks import Callback

from sts_lightning.analysis.alignment import contrastive_alignment, contrastive_uniformity
from sts_lightning.analysis.phases import PeakDetector
from sts_lightning.analysis.rank import effective_rank, energy_rank, singular_values
from sts_lightning.errors import ConfigError
from sts_lightning.evaluation.correlation import correlate, pair_cosines
from sts_lightning.evaluation.encoding import encode_distinct
from sts_lightning.regularizers.rank_reduction import RankReduction

log = logging.getLogger(__name__)

POSITIVE = 4.0
"""From which score on a dev pair counts as a positive for alignment."""


class RankMonitor(Callback):
    """Measures the vectors of the dev sentences every so many steps, and finds the phase switch.

    Each measurement goes to the history as ``rank/energy``, ``rank/effective`` (Roy & Vetterli),
    ``rank/entropy`` (exponential of the von Neumann entropy), ``rank/alignment``, ``rank/uniformity`` and
    ``rank/spearman``. It encodes without dropout and draws no random number, so training is the same with
    it and without it. When the energy rank has passed its peak, `RankReduction` is told that phase 2 has
    begun.

    Args:
        every: Steps between measurements. The paper: 5.
        pairs: Use the first so many dev pairs; all if not given.
        fraction: Of the energy, for ``rank/energy``.
        power: 2 for squared singular values as energy, 1 for plain ones.
        patience: Measurements below the peak after which it counts as passed.
        margin: How far below, relative to the peak.

    Raises:
        ConfigError: A value is out of range.
    """

    def __init__(
        self,
        every: int = 5,
        pairs: int | None = None,
        fraction: float = 0.99,
        power: int = 2,
        patience: int = 3,
        margin: float = 0.01,
    ) -> None:
        if every < 1:
            raise ConfigError(f"callbacks.rank_monitor.every must be at least 1, got {every}.")
        if pairs is not None and pairs < 2:
            raise ConfigError(f"callbacks.rank_monitor.pairs must be at least 2, got {pairs}.")
        self.every = every
        self.pairs = pairs
        self.fraction = fraction
        self.power = power
        try:
            self.detector = PeakDetector(patience, margin)
            energy_rank(np.ones(1), fraction, power)
        except ValueError as error:
            raise ConfigError(f"callbacks.rank_monitor: {error}") from error

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Measure the start."""
        if trainer.global_step == 0:
            self._measure(trainer, pl_module)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Measure if it is time."""
        if trainer.global_step % self.every == 0:
            self._measure(trainer, pl_module)

    def _measure(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        table = trainer.datamodule.dev  # type: ignore[attr-defined]  # set by Lightning
        count = len(table) if self.pairs is None else min(self.pairs, len(table))
        texts = [*table["sentence1"][:count], *table["sentence2"][:count]]
        gold = np.asarray(table["label"][:count])
        embedded = encode_distinct(pl_module.encoder, texts, progress=False)  # type: ignore[arg-type]
        first, second = embedded[texts].reshape(2, count, -1)
        vectors = embedded.vectors
        values = singular_values(vectors)
        rank = energy_rank(values, self.fraction, self.power)
        metrics = {
            "rank/energy": float(rank),
            "rank/effective": effective_rank(values, power=1),
            "rank/entropy": effective_rank(values, power=2),
            "rank/uniformity": contrastive_uniformity(vectors),
            "rank/spearman": correlate(pair_cosines(first, second), gold)["spearman"],
        }
        positive = gold >= POSITIVE
        if positive.any():
            metrics["rank/alignment"] = contrastive_alignment(first[positive], second[positive])
        for logger in trainer.loggers:
            logger.log_metrics(metrics, step=trainer.global_step)
        self._follow(rank, trainer.global_step, pl_module)

    def _follow(self, rank: float, step: int, pl_module: pl.LightningModule) -> None:
        before = self.detector.passed
        if self.detector.update(rank) and not before:
            log.info(
                "step %d: the rank has passed its peak of %g; phase 2 begins", step, self.detector.highest
            )
            regularizer = getattr(pl_module, "regularizer", None)
            if isinstance(regularizer, RankReduction):
                regularizer.phase.fill_(2)

    def state_dict(self) -> dict[str, Any]:
        """What the detector has seen; the phase itself is a buffer of the regularizer."""
        return self.detector.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there."""
        self.detector.load_state_dict(state_dict)
