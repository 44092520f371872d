"""Steps of a process that trains alone."""

from __future__ import annotations

from torch import Tensor

from sts_lightning.data.collate import Batch
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.text.chunks import TokenizedBatch
from sts_lightning.training.auxiliary.base import Step


def step_alone(
    encoder: SentenceEncoder, batch: Batch[TokenizedBatch], pooled: Tensor, recompute: bool = False
) -> Step:
    """The first step of a run with seed 0."""
    return Step(encoder, batch, batch.rows, recompute, pooled)
