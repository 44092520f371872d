"""Queue of negatives from earlier batches, encoded by a momentum copy of the encoder."""

from __future__ import annotations

import copy
from typing import Self

import torch
from torch import Tensor

from sts_lightning.core.errors import check_range
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.text.chunks import TokenizedBatch
from sts_lightning.papers.auxiliary.random_weights import random_weights
from sts_lightning.papers.auxiliary.second_encoder import first_sentences
from sts_lightning.training.auxiliary.base import AuxiliaryModel, Step

LARGEST = 10_000_000
"""Most vectors in a queue: 30 GB at 768 dimensions."""


class MomentumQueue(AuxiliaryModel):
    r"""First-in, first-out queue of vectors of a momentum encoder (ESimCSE, Sec. 3.2).

    Each step, after the loss is computed, the copy moves towards the encoder,
    :math:`\theta_m \leftarrow \lambda \theta_m + (1 - \lambda) \theta`, encodes the first view of the batch
    without dropout, and its vectors replace the oldest ones. The queue starts empty.

    The copy starts equal to the encoder and has its own projection, as in the paper, and not as in its code
    (`PaperCodeMomentumQueue`).

    Args:
        size: Maximal number of vectors.
        momentum: lambda, in [0, 1).

    Raises:
        ValueError: A value is out of range.
    """

    provides = "negatives"
    frozen_copy = "encoder_copy"

    encoder_copy: SentenceEncoder
    vectors: Tensor
    filled: Tensor

    def __init__(self, size: int, momentum: float) -> None:
        super().__init__()
        check_range("size", size, 1, LARGEST)
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum must lie in [0, 1), got {momentum}.")
        self.size = size
        self.momentum = momentum
        self._filled = 0  # the same on the host: to read it from a GPU, each step would wait for the card
        self.register_load_state_dict_post_hook(_read_filled)  # type: ignore[no-untyped-call]

    def connect(self, encoder: SentenceEncoder) -> None:
        """Copy the encoder."""
        if encoder.config.projection == "batch_norm":
            raise ValueError("a copy with model.projection=batch_norm would have no statistics.")
        self.encoder_copy = copy.deepcopy(encoder).requires_grad_(False)
        self.register_buffer("vectors", torch.zeros(self.size, encoder.dimension))
        self.register_buffer("filled", torch.zeros((), dtype=torch.int64))

    def train(self, mode: bool = True) -> Self:
        """Set the mode; the copy never uses dropout, but applies the projection used in training."""
        super().train(mode)
        self.encoder_copy.eval()
        self.encoder_copy.training = True  # the encoder's own flag alone, which enables its projection
        return self

    def forward(self, step: Step) -> Tensor:
        """Return the vectors of earlier steps as negatives of this one."""
        return self.negatives()

    def update(self, step: Step) -> None:
        """Follow the encoder, and replace the oldest vectors by those of the step's first view."""
        self.follow(step.encoder)
        shard, size = step.batch.shard, step.batch.size
        vectors = self.embed(first_sentences(step.batch.rows, max(1, shard.size_of(size))))
        self.push(step.gather(vectors[None])[0])

    def negatives(self) -> Tensor:
        """Return the vectors, oldest first, (N, D) with N at most ``size``."""
        return self.vectors[self.size - self._filled :]

    @torch.no_grad()
    def follow(self, encoder: SentenceEncoder) -> None:
        """Move the trained weights of the copy towards those of the encoder; frozen ones are equal."""
        copies = dict(self.encoder_copy.named_parameters())
        for name, theirs in encoder.named_parameters():
            if theirs.requires_grad:
                copies[name].lerp_(theirs.detach(), 1 - self.momentum)

    @torch.no_grad()
    def embed(self, rows: TokenizedBatch) -> Tensor:
        """Embed sentences with the copy, (N, D)."""
        vectors: Tensor = self.encoder_copy(rows)
        return vectors.to(self.vectors.dtype)

    @torch.no_grad()
    def push(self, vectors: Tensor) -> None:
        """Append vectors and drop the oldest ones."""
        self.vectors.copy_(torch.cat([self.vectors, vectors])[-self.size :])
        self._filled = min(self._filled + len(vectors), self.size)
        self.filled.fill_(self._filled)


class PaperCodeMomentumQueue(MomentumQueue):
    """Queue whose copy starts and projects as in the paper's code.

    The transformer of the copy starts from `random weights
    <https://github.com/caskcsg/sentemb/blob/5eeec55103c1da738761bf8c6a9c085c6ad1c9a1/ESimCSE/esimcse/models.py#L346-L350>`_,
    since it is made before the pre-trained ones are loaded, and its vectors pass through the `online
    projection
    <https://github.com/caskcsg/sentemb/blob/5eeec55103c1da738761bf8c6a9c085c6ad1c9a1/ESimCSE/esimcse/models.py#L188-L189>`_.
    """

    def connect(self, encoder: SentenceEncoder) -> None:
        """Copy the encoder's structure, and draw its weights."""
        if not all(parameter.requires_grad for parameter in encoder.backbone.parameters()):
            raise ValueError(
                "a copy that starts from random weights needs an encoder whose weights all train."
            )
        super().connect(encoder)
        fresh = random_weights(encoder.plain_backbone)
        self.encoder_copy.plain_backbone.load_state_dict(fresh.state_dict())

    @torch.no_grad()
    def follow(self, encoder: SentenceEncoder) -> None:
        """Move the copy towards the encoder, and its projection all the way."""
        super().follow(encoder)
        if encoder.projector is not None:
            self.encoder_copy.projector.load_state_dict(encoder.projector.state_dict())


def _read_filled(queue: MomentumQueue, keys: object) -> None:
    queue._filled = int(queue.filled)
