"""Teacher encoders, whose similarities a loss distils."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from sts_lightning.core.choices import Precision
from sts_lightning.evaluation.encoding import Encoder
from sts_lightning.evaluation.vector_cache import CachedVectors, fingerprint
from sts_lightning.losses.base import cosine_matrix
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.pipeline import from_pipeline
from sts_lightning.models.loading.run import is_run, load
from sts_lightning.models.pooling import Pooling
from sts_lightning.training.auxiliary.base import AuxiliaryModel, Step
from sts_lightning.training.auxiliary.stored_vectors import StoredVectors, has_vectors


class Encodes(Encoder, Protocol):
    """Anything that embeds sentences in vectors of a known size."""

    @property
    def dimension(self) -> int:
        """Size D of a vector."""
        ...


class Teacher(AuxiliaryModel):
    r"""Similarities of a batch's sentences by frozen encoders (RankCSE, Liu et al. 2023).

    .. math:: t_{ij} = \sum_k w_k \cos(f_k(x_i), f_k(x_j^+))

    where x and x^+ are the sentences of the first two views as they are in the data, without augmentation or
    template. The teachers embed them without dropout at each step, as `SentenceEncoder.encode` does whatever
    the precision of training; their weights are not part of the run's checkpoints.

    Use it when a loss takes a teacher, as `RankCSELoss` does. A teacher of the student's size takes about the
    time of a step. With a folder for their vectors, no teacher embeds a sentence twice, in this run or in
    another one; vectors of any other encoder can be stored beforehand (`StoredVectors`).

    Args:
        sources: The teachers: each a run folder, the id of a model on the hub (optionally with ``@commit``),
            the folder of a model, or a folder of stored vectors.
        weights: w, one for each teacher, not negative and not all 0; equal by default. They are scaled to sum
            to 1.
        pooling: Pooling of models that are no runs; None for that of their pipelines.
        max_length: Maximum number of tokens of a sentence for these models; None for that of their pipelines.
        precision: Precision of the teachers' weights; None for that of their settings.
        cache_dir: Folder that keeps the teachers' vectors; None for none.

    Raises:
        ValueError: An argument is out of range.
    """

    provides = "teacher"

    def __init__(
        self,
        sources: list[str],
        weights: list[float] | None = None,
        pooling: Pooling | None = None,
        max_length: int | None = None,
        precision: Precision | None = None,
        cache_dir: str | None = None,
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
        self.pooling: Pooling | None = pooling
        self.max_length = max_length
        self.precision: Precision | None = precision
        self.cache_dir = None if cache_dir is None else Path(cache_dir)
        self.encoders: list[Encodes] = []  # outside the module's sub-modules: not in checkpoints
        self._cached: dict[int, CachedVectors] = {}

    def connect(self, encoder: SentenceEncoder) -> None:
        """Load the teachers; the run's own random numbers do not depend on them."""
        self.connect_by(self._load)

    def connect_by(self, load: Callable[[str], Encodes]) -> None:
        """Take the teachers from another function than the one that loads weights.

        Args:
            load: Function from a source to its teacher.
        """
        with torch.random.fork_rng([]):  # of the CPU alone: reading CUDA's state would start it
            self.encoders = [load(source) for source in self.sources]
        self._cached = {}

    def _load(self, source: str) -> Encodes:
        if has_vectors(Path(source)):
            return StoredVectors(Path(source))
        changed = self.pooling is not None or self.max_length is not None
        if changed and not is_run(source):
            encoder = from_pipeline(source, pooling=self.pooling, max_length=self.max_length).eval()
            encoder.set_evaluation(max_length=self.max_length)
        else:
            encoder = load(source)
        if self.precision is not None:
            encoder.set_precision(self.precision)
        return encoder.requires_grad_(False)

    @torch.no_grad()
    def forward(self, step: Step) -> Tensor:
        """Compute the teachers' similarities of the whole batch, (B, B) in float32."""
        with torch.autocast(step.pooled.device.type, enabled=False):
            cosines = [
                weight * cosine_matrix(*self.vectors(number, step, 2))
                for number, weight in enumerate(self.weights)
            ]
            return torch.stack(cosines).sum(dim=0)

    def vectors(self, number: int, step: Step, views: int) -> Tensor:
        """Compute vectors of the first views of the whole batch, (views, B, D) in float32.

        Args:
            number: Index of the teacher.
            step: The step.
            views: Number of views.
        """
        device = step.pooled.device
        reader = self._reader(number)
        first, *others = step.batch.texts[:views]
        with torch.autocast(device.type, enabled=False):  # it would hold in this thread alone
            vectors = [np.asarray(reader.encode(first))]
            for texts in others:
                same = list(texts) == list(first)
                vectors.append(vectors[0] if same else np.asarray(reader.encode(texts)))
        return step.gather(torch.from_numpy(np.stack(vectors)).to(device, torch.float32))

    def place(self, device: torch.device) -> None:
        """Move the teachers to the device of training."""
        for encoder in self.encoders:
            if isinstance(encoder, SentenceEncoder):
                encoder.to(device)
                encoder.tells_truncation = False  # of each batch

    def _reader(self, number: int) -> Encoder:
        """Return what gives the vectors of a teacher: itself, or its folder of vectors."""
        encoder = self.encoders[number]
        if not isinstance(encoder, SentenceEncoder):
            return encoder
        if self.cache_dir is None:
            return encoder
        if number not in self._cached:
            folder = self.cache_dir / fingerprint(encoder)[:16]
            self._cached[number] = CachedVectors(encoder, folder)
        return self._cached[number]


class TeacherVectors(Teacher):
    r"""Vectors of a batch's sentences by frozen encoders, joined to one for each sentence.

    .. math:: t(x) = \bigl[\sqrt{w_1}\, \hat f_1(x); \sqrt{w_2}\, \hat f_2(x); \dots\bigr]

    with :math:`\hat f_k` the normalised vector of teacher k, so that :math:`t(x) \cdot t(y)` is the weighted
    mean of the teachers' cosines, which `Teacher` supplies instead. All views are embedded, each sentence as
    it is in the data.

    Use it with `VectorDistillationLoss`. See `Teacher` for the arguments.
    """

    provides = "teacher_vectors"

    @property
    def dimension(self) -> int:
        """Size of a joined vector, known after `connect`."""
        return sum(encoder.dimension for encoder in self.encoders)

    @torch.no_grad()
    def forward(self, step: Step) -> Tensor:
        """Compute the joined vectors of the whole batch, (V, B, dimension) in float32."""
        vectors = [
            weight**0.5 * F.normalize(self.vectors(number, step, step.batch.num_views), dim=-1)
            for number, weight in enumerate(self.weights)
        ]
        return torch.cat(vectors, dim=-1)
