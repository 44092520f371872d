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


def longest_rows(encoder: SentenceEncoder, count: int) -> dict[str, Tensor]:
    """A chunk of rows of the maximum length in training, on the encoder's device."""
    texts = ["a " * encoder.tokenizer.lengths.train] * count
    (chunk,) = encoder.tokenizer.training_rows([texts], [None], 10**9).chunks
    return {name: values.to(encoder.device) for name, values in chunk.items()}
