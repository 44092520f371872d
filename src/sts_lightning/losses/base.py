"""What a loss is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

from torch import Tensor, nn
from torch.nn import functional as F


class Loss(nn.Module, ABC):
    """A function of the embeddings of a batch, and perhaps its labels, to minimise.

    A subclass declares what it needs, so that a configuration that pairs it with data it cannot use
    fails before any weight is loaded.

    Attributes:
        views: The numbers of views V that the loss can take.
        label: The kind of label it reads.
        couples_rows: Whether the value depends on how rows are grouped into batches.
    """

    views: ClassVar[tuple[int, ...]]
    label: ClassVar[Literal["none", "score", "class"]]
    couples_rows: ClassVar[bool]

    @abstractmethod
    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """The loss of a batch.

        Args:
            views: Embeddings, shape (V, B, D), any floating dtype.
            labels: Scores (float) or classes (int64), shape (B,); None where ``label`` is ``none``.

        Returns:
            A scalar in float32.
        """


def cosine_rows(first: Tensor, second: Tensor) -> Tensor:
    """Cosine of corresponding rows, in float32: (B, D), (B, D) -> (B,)."""
    return F.cosine_similarity(first.float(), second.float(), dim=-1)


def cosine_matrix(first: Tensor, second: Tensor) -> Tensor:
    """Cosine of every row with every row, in float32: (B, D), (C, D) -> (B, C)."""
    return F.normalize(first.float(), dim=-1) @ F.normalize(second.float(), dim=-1).T
