"""Rank, alignment and uniformity of the dev sentences in the course of training."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from lightning.fabric.utilities import move_data_to_device
from lightning.pytorch.callbacks import Callback
from torch import nn

from sts_lightning.core.choices import Views
from sts_lightning.core.errors import ConfigError, check_choice
from sts_lightning.core.hardware import encoding_chunk_tokens
from sts_lightning.data.ranking import Ranking
from sts_lightning.data.table import SCORE_RANGE, Table
from sts_lightning.evaluation.encoding import encode_distinct
from sts_lightning.evaluation.statistics import correlate, pair_cosines
from sts_lightning.models.encoder import SentenceEncoder, evaluation_mode
from sts_lightning.papers.alignment import (
    alignment,
    contrastive_alignment,
    contrastive_uniformity,
    uniformity,
)
from sts_lightning.papers.phases import PeakDetector
from sts_lightning.papers.vector_ranks import effective_rank, energy_rank, singular_values
from sts_lightning.regularizers.rank_reduction import RankReduction
from sts_lightning.training.callbacks.progress import random_states, restore_random_states

log = logging.getLogger(__name__)

POSITIVE = 4.0
"""Lowest gold score of a dev pair, on STS's scale, that counts as a positive for alignment."""

SEED = 0
"""Seed of the dropout: that of every measurement, so that measurements differ by the weights alone."""


class RankMonitor(Callback):
    """Measures the vectors of the dev sentences at regular intervals, and detects the phase switch.

    Each measurement is logged as ``rank/energy``, ``rank/effective`` (Roy & Vetterli),
    ``rank/entropy`` (exponential of the von Neumann entropy), ``rank/alignment``, ``rank/uniformity`` and
    ``rank/spearman``. It encodes without dropout and draws no random numbers, so training is the same with
    and without it. When the energy rank has passed its peak, `RankReduction` enters phase 2. Alignment is
    that of the dev pairs with a score of at least 4, and is left out on another scale than [0, 5].

    With ``views="dropout"`` it also measures two dropout views of each sentence, with other random
    numbers. ``rank/dropout_alignment`` and ``rank/dropout_uniformity`` are those of the rank-reduction paper
    (Eq. 4 and 5: the sum is over the second views of the other sentences), ``rank/dropout_sphere_alignment``
    and ``rank/dropout_sphere_uniformity`` those of Wang & Isola, the latter of the first views.

    Args:
        every: Steps between measurements; 5 in the paper.
        pairs: Number of dev pairs to use, from the first; by default all.
        fraction: Fraction of the energy that ``rank/energy`` covers.
        power: Power of the singular values that counts as energy, 1 or 2.
        patience: Number of measurements below the peak after which it counts as passed.
        margin: Minimal distance below the peak, relative to it.
        views: Pairs of views to measure besides the dev pairs (see `Views`).

    Raises:
        ValueError: A value is out of range.
    """

    switches_phases = True
    """It tells a regularizer when its second phase begins."""

    def __init__(
        self,
        every: int = 5,
        pairs: int | None = None,
        fraction: float = 0.99,
        power: int = 2,
        patience: int = 3,
        margin: float = 0.01,
        views: Views = "none",
    ) -> None:
        if every < 1:
            raise ValueError(f"every must be at least 1, got {every}.")
        if pairs is not None and pairs < 2:
            raise ValueError(f"pairs must be at least 2, got {pairs}.")
        self.every = every
        self.pairs = pairs
        self.fraction = fraction
        self.power = power
        check_choice("views", views, Views)
        self.views: Views = views
        self.detector = PeakDetector(patience, margin)
        energy_rank(np.ones(1), fraction, power)  # checks both arguments

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Reject dev data without scored pairs."""
        if isinstance(trainer.datamodule.dev, Ranking):  # type: ignore[attr-defined]  # set by Lightning
            raise ConfigError(
                "callbacks.rank_monitor needs scored dev pairs, and queries select the weights of this run.",
                key="callbacks.rank_monitor",
                hint="Type data.dev_fraction=0 for STS-B dev, or data.dev_path=FILE with scored pairs.",
            )

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Measure the untrained model."""
        if trainer.global_step == 0:
            self._measure(trainer, pl_module)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Measure if a measurement is due."""
        if trainer.global_step % self.every == 0:
            self._measure(trainer, pl_module)

    def _measure(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        table: Table = trainer.datamodule.dev  # type: ignore[attr-defined]  # set by Lightning
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
            "rank/uniformity": contrastive_uniformity(vectors, vectors),
            "rank/spearman": correlate(pair_cosines(first, second), gold)["spearman"],
        }
        positive = gold >= POSITIVE
        if gold.min() >= SCORE_RANGE[0] and gold.max() <= SCORE_RANGE[1] and positive.any():
            metrics["rank/alignment"] = contrastive_alignment(first[positive], second[positive])
        if self.views == "dropout":
            views = dropout_views(pl_module.encoder, list(embedded.index))  # type: ignore[arg-type]
            _check_views(pl_module.encoder, *views)  # type: ignore[arg-type]
            metrics |= _view_metrics(*views)
        pl_module.log_at(metrics, trainer.global_step)  # type: ignore[operator]
        self._follow(rank, trainer.global_step, pl_module)

    def _follow(self, rank: float, step: int, pl_module: pl.LightningModule) -> None:
        before = self.detector.passed
        if self.detector.update(rank) and not before:
            log.info(
                "step %d: the rank has passed its peak of %g; phase 2 begins", step, self.detector.highest
            )
            regularizer = getattr(pl_module, "regularizer", None)
            if isinstance(regularizer, RankReduction):
                regularizer.enter(2)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the peak detector; the phase itself is a buffer of the regularizer."""
        return self.detector.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state of the peak detector."""
        self.detector.load_state_dict(state_dict)


def _check_views(encoder: SentenceEncoder, first: np.ndarray, second: np.ndarray) -> None:
    """Reject two equal views of a model without dropout.

    That of a new LoRA has no effect yet, as its second factor is 0; that of some families is no module.
    """
    drops = any(isinstance(part, nn.Dropout) and part.p > 0 for part in encoder.backbone.modules())
    if np.array_equal(first, second) and not drops:
        raise ConfigError(
            "callbacks.rank_monitor.views=dropout, but this model has no dropout: its two views are equal.",
            key="callbacks.rank_monitor.views",
        )


def _view_metrics(first: np.ndarray, second: np.ndarray) -> dict[str, float]:
    """Return alignment and uniformity of two views (N, D) of the same sentences, by both definitions."""
    return {
        "rank/dropout_alignment": contrastive_alignment(first, second),
        "rank/dropout_uniformity": contrastive_uniformity(first, second),
        "rank/dropout_sphere_alignment": alignment(first, second),
        "rank/dropout_sphere_uniformity": uniformity(first),
    }


@torch.no_grad()
def dropout_views(encoder: SentenceEncoder, sentences: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Embed each sentence twice as in evaluation, but with the backbone's dropout.

    The state of torch's random generators and the mode of the encoder are left as they were.

    Args:
        encoder: The encoder.
        sentences: Distinct sentences, N of them.

    Returns:
        Two float32 arrays, each of shape (N, D).
    """
    rows = encoder.prepare(encoding_chunk_tokens(encoder.device.type), training=False)([sentences], [None])
    rows = move_data_to_device(rows, encoder.device)
    states = random_states(encoder.device)
    try:
        with evaluation_mode(encoder):
            torch.manual_seed(SEED)
            encoder.backbone.train()  # a projection of training alone stays away
            first, second = (encoder(rows).float().cpu().numpy() for _ in range(2))
    finally:
        restore_random_states(states, encoder.device)
    return first, second
