"""What a loss is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LabelKind = Literal["none", "score", "class"]

LABEL_WORDS: dict[LabelKind, str] = {
    "none": "no label",
    "score": "a similarity score",
    "class": "a class",
}

TOP_SCORE = 5.0
"""The highest similarity score; the lowest is 0."""


class Loss(nn.Module, ABC):
    """A function of the embeddings of a batch, and perhaps its labels, to minimise.

    A subclass declares what it needs, so that a configuration that pairs it with data it cannot use
    fails before any weight is loaded.

    Attributes:
        views: The numbers of views V that the loss can take.
        labels: The kinds of label that it can read.
        takes_negatives: Whether `forward` has a third argument, further negatives of shape (N, D).
        observed: What the last call saw besides the loss, such as the accuracy of a head; logged in training.
    """

    views: tuple[int, ...]
    labels: tuple[LabelKind, ...]
    takes_negatives: bool = False

    def __init__(self) -> None:
        super().__init__()
        self.observed: dict[str, Tensor] = {}

    def check_dimension(self, dimension: int) -> None:
        """Check that the loss can be computed on embeddings of a size; most take any.

        Args:
            dimension: D, the size of an embedding.

        Raises:
            ValueError: It cannot.
        """

    def make_head(self, dimension: int, top_label: float) -> None:
        """Create the parameters of the head; a loss without one has nothing to do.

        Args:
            dimension: D, the size of an embedding.
            top_label: The highest label: `TOP_SCORE`, or the number of classes less one.
        """

    def needs(self) -> str:
        """What it takes, in words, for messages."""
        kinds = " or ".join(LABEL_WORDS[kind] for kind in self.labels)
        return f"{' or '.join(map(str, self.views))} views and {kinds}"

    @abstractmethod
    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """The loss of a batch.

        Args:
            views: Embeddings, shape (V, B, D), any floating dtype.
            labels: Scores (float) or classes (int64), shape (B,); None where there are no labels.

        Returns:
            A scalar in float32 (in float64 for float64 embeddings).
        """


def upcast(tensor: Tensor) -> Tensor:
    """In float32, or float64 if it is that already: the precision of all losses."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def cosine_rows(first: Tensor, second: Tensor) -> Tensor:
    """Cosine of corresponding rows, at least in float32: (B, D), (B, D) -> (B,)."""
    return F.cosine_similarity(upcast(first), upcast(second), dim=-1)


def cosine_matrix(first: Tensor, second: Tensor) -> Tensor:
    """Cosine of every row with every row, at least in float32: (B, D), (C, D) -> (B, C)."""
    return F.normalize(upcast(first), dim=-1) @ F.normalize(upcast(second), dim=-1).T


def require_labels(loss: Loss, labels: Tensor | None) -> Tensor:
    """The labels, or an error for a caller who forgot them.

    Raises:
        ValueError: There are none.
    """
    if labels is None:
        raise ValueError(f"{type(loss).__name__} needs a label for each row.")
    return labels
