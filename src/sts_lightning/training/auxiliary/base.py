"""Auxiliary models, beside the encoder, that supply a loss with more than views and labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sts_lightning.data.collate import Batch
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.text.chunks import TokenizedBatch
from sts_lightning.training.gather import gather_examples


@dataclass(frozen=True)
class Step:
    """A training step after the encoder has run, for an auxiliary model.

    Attributes:
        encoder: The encoder in training.
        batch: The batch, of which this process embeds one shard.
        rows: Tokenised sentences of the shard, in chunks of the size that this step runs.
        recompute: Whether chunks are recomputed in the backward pass (gradient cache).
        pooled: Vectors of the rows before the projection, view-major, (V * b, D).
        position: Seed of the run, epoch, and number of the batch in it, from which random numbers that belong
            to an example follow.
        agree: See `STSModule.agree`.
    """

    encoder: SentenceEncoder
    batch: Batch[TokenizedBatch]
    rows: TokenizedBatch
    recompute: bool
    pooled: Tensor
    position: tuple[int, int, int] = (0, 0, 0)
    agree: Callable[[], None] = lambda: None

    def gather(self, rows: Tensor) -> Tensor:
        """Gather tensors of the shard, (K, b, D), into those of the whole batch, (K, B, D)."""
        self.agree()
        return gather_examples(rows, self.batch.size, self.batch.shard)

    def total(self, rows: Tensor) -> Tensor:
        """Add up summands of the shard, (K, b, D), over the whole batch, (D,), with the exact gradient."""
        self.agree()
        return gather_examples(rows, self.batch.size, self.batch.shard).sum(dim=(0, 1))


class AuxiliaryModel(nn.Module, ABC):
    """Base class of auxiliary models.

    The loss receives the tensor of an auxiliary model as the argument that the model names, and declares
    which names it takes and which it cannot do without (`Loss.needs`).

    Attributes:
        provides: Name of the argument of the loss.
        extra_views: Number of further embeddings with gradient for each example, which a micro batch has to
            leave memory for.
        frozen_copy: Sub-module that is a copy of the encoder without gradients; checkpoints have its
            counterparts of the weights that train, and its others equal the encoder's.
        above: Sub-module above the encoder, whose layers are not counted with the encoder's.
    """

    provides: str
    extra_views: int = 0
    frozen_copy: str | None = None
    above: str | None = None

    def connect(self, encoder: SentenceEncoder) -> None:
        """Create what depends on the encoder, before training; its weights are those at the start.

        Args:
            encoder: The encoder in training.

        Raises:
            ValueError: The auxiliary model does not fit the encoder.
        """

    def place(self, device: torch.device) -> None:
        """Move what is no sub-module to the device of training, before the first step."""

    @abstractmethod
    def forward(self, step: Step) -> Tensor:
        """Compute the argument of the loss."""

    def update(self, step: Step) -> None:
        """Learn from a step after its backward pass, before the optimiser's; most auxiliary models do not."""
