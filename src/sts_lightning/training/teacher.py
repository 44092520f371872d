"""Teacher encoders, whose similarities a loss distils."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from sts_lightning.losses.base import cosine_matrix
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading import load
from sts_lightning.models.pooling import Pooling
from sts_lightning.runs.folder import RunFolder
from sts_lightning.training.companion import Companion, Step
from sts_lightning.training.stored_vectors import StoredVectors, has_vectors


class Encodes(Protocol):
    """Anything that embeds sentences."""

    @property
    def dimension(self) -> int:
        """Size D of a vector."""
        ...

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        """Return the vectors of sentences, (N, D)."""
        ...


class Teacher(Companion):
    r"""Similarities of a batch's sentences by frozen encoders (RankCSE, Liu et al. 2023).

    .. math:: t_{ij} = \sum_k w_k \cos(f_k(x_i), f_k(x_j^+))

    where x and x^+ are the sentences of the first two views as they are in the data, without augmentation or
    template. The teachers embed them without dropout at each step; their weights are not part of the run's
    checkpoints.

    Use it when a loss takes a teacher, as `RankCSELoss` does. Vectors that were stored once
    (`StoredVectors`) save the teachers' time, which is about that of a step for teachers of the student's
    size.

    Args:
        sources: The teachers: each a run folder, the id of a model on the hub (optionally with ``@commit``),
            the folder of a model, or a folder of stored vectors.
        weights: w, one for each teacher, not negative and not all 0; equal by default. They are scaled to sum
            to 1.
        pooling: Pooling of models that are no runs; a run has its own.
        max_length: Maximum number of tokens of a sentence for these models.

    Raises:
        ValueError: An argument is out of range.
    """

    provides = "teacher"

    def __init__(
        self,
        sources: list[str],
        weights: list[float] | None = None,
        pooling: Pooling = "cls",
        max_length: int = 128,
    ) -> None:
        super().__init__()
        if not sources:
            raise ValueError("sources is empty, but a teacher needs at least one run, model or folder.")
        if weights is None:
            weights = [1.0] * len(sources)
        if len(weights) != len(sources):
            raise ValueError(f"weights must be one for each source, got {len(weights)} for {len(sources)}.")
        if not all(0 <= weight < math.inf for weight in weights) or not any(weights):
            raise ValueError(
                f"weights must be finite, not negative and not all 0, got {', '.join(map(str, weights))}."
            )
        self.sources = tuple(sources)
        self.weights = tuple(weight / sum(weights) for weight in weights)
        self.pooling: Pooling = pooling
        self.max_length = max_length
        self.encoders: list[Encodes] = []  # outside the module's own parts: no part of checkpoints

    def connect(self, encoder: SentenceEncoder) -> None:
        """Load the teachers; the run's own random numbers do not depend on them."""
        self.connect_by(self._load)

    def connect_by(self, load: Callable[[str], Encodes]) -> None:
        """Take the teachers from another function than the one that loads weights.

        Args:
            load: Function from a source to its teacher.
        """
        with torch.random.fork_rng():
            self.encoders = [load(source) for source in self.sources]

    def _load(self, source: str) -> Encodes:
        if has_vectors(Path(source)):
            return StoredVectors(Path(source))
        if RunFolder(source).config_file.is_file():
            return load(source).requires_grad_(False)
        encoder = SentenceEncoder.from_pretrained(source, pooling=self.pooling, max_length=self.max_length)
        return encoder.requires_grad_(False).eval()

    @torch.no_grad()
    def forward(self, step: Step) -> Tensor:
        """Compute the teachers' similarities of the whole batch, (B, B) in float32."""
        parts = [
            weight * self._similarities(encoder, step)
            for weight, encoder in zip(self.weights, self.encoders, strict=True)
        ]
        return torch.stack(parts).sum(dim=0)

    def _similarities(self, encoder: Encodes, step: Step) -> Tensor:
        first, second = self.vectors(encoder, step, 2)
        return cosine_matrix(first, second)

    def vectors(self, encoder: Encodes, step: Step, views: int) -> Tensor:
        """Compute a teacher's vectors of the first views of the whole batch, (views, B, D) in float32."""
        device = step.views.device
        if isinstance(encoder, SentenceEncoder) and encoder.device != device:
            encoder.to(device)
        first, *others = step.batch.texts[:views]
        own = [np.asarray(encoder.encode(first))]
        own += [
            own[0] if list(texts) == list(first) else np.asarray(encoder.encode(texts)) for texts in others
        ]
        return step.gather(torch.from_numpy(np.stack(own)).to(device, torch.float32))
