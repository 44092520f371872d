"""Negatives from earlier batches, encoded by a slow copy of the encoder."""

from __future__ import annotations

import copy
from typing import Self

import torch
from torch import Tensor, nn

from sts_lightning.errors import ConfigError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.tokenized_batch import TokenizedBatch


def check_queue(size: int, momentum: float) -> None:
    """Reject values out of range; a size of 0 means that there is no queue.

    Raises:
        ConfigError: One of them.
    """
    if size < 0:
        raise ConfigError(f"queue.size must not be negative, got {size}.")
    if not 0 <= momentum < 1:
        raise ConfigError(f"queue.momentum must lie in [0, 1), got {momentum}.")


class MomentumQueue(nn.Module):
    r"""The last vectors of a momentum encoder (ESimCSE, Sec. 3.2).

    Each step, after the loss has seen the queue, the copy follows the encoder,
    :math:`\theta_m \leftarrow \lambda \theta_m + (1 - \lambda) \theta`, encodes the first view of the batch
    without dropout, and its vectors push out the oldest ones. The queue starts empty.

    Deviations from the papers' code: that starts the copy from random weights, since it makes the copy
    before the pre-trained ones are loaded, and passes its vectors through the online projection; here the
    copy starts equal to the encoder, projection included.

    Args:
        encoder: What is copied.
        size: Vectors that are kept.
        momentum: lambda, in [0, 1).

    Raises:
        ConfigError: A value is out of range.
    """

    vectors: Tensor
    filled: Tensor

    def __init__(self, encoder: SentenceEncoder, size: int, momentum: float) -> None:
        super().__init__()
        if size < 1:
            raise ConfigError(f"queue.size must be positive, got {size}.")
        check_queue(size, momentum)
        self.size = size
        self.momentum = momentum
        self.encoder_copy = copy.deepcopy(encoder).requires_grad_(False)
        self.register_buffer("vectors", torch.zeros(size, encoder.dimension))
        self.register_buffer("filled", torch.zeros((), dtype=torch.int64))

    def train(self, mode: bool = True) -> Self:
        """Set the mode; the copy never has dropout, and its projection is that of training."""
        super().train(mode)
        self.encoder_copy.eval()
        self.encoder_copy.training = True  # of the encoder itself: whether its projection counts
        return self

    def negatives(self) -> Tensor:
        """The vectors, oldest first, (N, D) with N up to ``size``."""
        return self.vectors[self.size - int(self.filled) :]

    @torch.no_grad()
    def follow(self, encoder: SentenceEncoder) -> None:
        """Move the copy a step towards the encoder."""
        for mine, theirs in zip(self.encoder_copy.parameters(), encoder.parameters(), strict=True):
            mine.lerp_(theirs.detach(), 1 - self.momentum)

    @torch.no_grad()
    def embed(self, rows: TokenizedBatch) -> Tensor:
        """The copy's vectors of sentences, (N, D)."""
        vectors: Tensor = self.encoder_copy(rows)
        return vectors.to(self.vectors.dtype)

    @torch.no_grad()
    def push(self, vectors: Tensor) -> None:
        """Add vectors, and lose the oldest ones."""
        self.vectors.copy_(torch.cat([self.vectors, vectors])[-self.size :])
        self.filled.fill_(min(self.size, int(self.filled) + len(vectors)))
