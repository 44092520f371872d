"""Base class and helpers of all losses."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sts_lightning.choices import LabelKind

LABEL_WORDS: dict[LabelKind, str] = {
    "none": "no label",
    "score": "a similarity score",
    "class": "a class",
}

TOP_SCORE = 5.0
"""The highest similarity score; the lowest is 0."""


class Loss(nn.Module, ABC):
    """Base class of losses: functions of the embeddings of a batch and, if any, its labels.

    A subclass declares the views and labels it needs, so that a configuration that pairs it with data it
    cannot use is rejected before any weights are loaded. A loss that needs the size D of an embedding or the
    highest label, as one with a head does, has the constructor arguments ``dimension`` and ``top_label``.
    They follow from the model and the data and are no settings.

    Attributes:
        views: Numbers of views V that the loss accepts.
        more_views: Whether it also accepts every larger number, as a loss with any number of hard negatives.
        labels: Kinds of label that the loss accepts.
        takes: Names of further arguments of `forward` that the batch (``sentence_ids``), a queue
            (``negatives``) or a companion supplies.
        requires: Those without which the loss cannot be computed.
        least_batch: Number of rows below which the loss has no gradient: 2 for one that compares rows, 1 for
            one of each row alone, which is defined on equal labels, too.
        least_rows: Number of rows below which it may have no value.
        compares: Whether it compares the labels of a batch, and so has no gradient where all are equal.
        observed: Quantities of the last call besides the loss, such as the accuracy of a head; logged in
            training.
    """

    views: tuple[int, ...]
    more_views: bool = False
    labels: tuple[LabelKind, ...]
    takes: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    least_batch: int = 2
    least_rows: int = 1
    compares: bool = False

    def __init__(self) -> None:
        super().__init__()
        self.observed: dict[str, Tensor] = {}

    def needs(self) -> str:
        """Return the accepted views and labels in words, for messages."""
        kinds = " or ".join(LABEL_WORDS[kind] for kind in self.labels)
        views = f"{min(self.views)} or more" if self.more_views else " or ".join(map(str, self.views))
        return f"{views} views and {kinds}"

    def check_dimension(self, dimension: int) -> None:
        """Reject embeddings of a size that the loss cannot read; most losses read any.

        Args:
            dimension: D, the size of an embedding.

        Raises:
            ValueError: The loss cannot read it.
        """

    @abstractmethod
    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """Compute the loss of a batch.

        Args:
            views: Embeddings, shape (V, B, D), any floating dtype.
            labels: Scores (float) or classes (int64), shape (B,); None where there are no labels.

        Returns:
            A scalar in float32 (in float64 for float64 embeddings).
        """


def accepts(loss: Loss | type[Loss], num_views: int) -> bool:
    """Return whether a loss accepts a number of views."""
    return num_views in loss.views or (loss.more_views and num_views > max(loss.views))


def repeats(views: Tensor, sentence_ids: Tensor | None) -> Tensor:
    """Find the candidates that are no negatives, since their text is that of the positive or the anchor.

    Args:
        views: Anchors, positives[, hard negatives ...], (V, B, D).
        sentence_ids: Numbers of the sentences, (V, B), equal for equal texts; None finds nothing.

    Returns:
        A mask (B, (V - 1) * B) of anchors by candidates, in the order of ``views[1:].flatten(0, 1)``. An
        anchor's own positive is never in it, its own hard negative may be.
    """
    count, size = len(views) - 1, views.shape[1]
    if sentence_ids is None:
        return torch.zeros(size, count * size, dtype=torch.bool, device=views.device)
    candidates = sentence_ids[1:].flatten()
    found = (candidates == sentence_ids[0, :, None]) | (candidates == sentence_ids[1, :, None])
    return found & ~torch.eye(size, count * size, dtype=torch.bool, device=views.device)


def upcast(tensor: Tensor) -> Tensor:
    """Upcast to float32, the precision of all losses; float64 is left as it is."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def cosine_rows(first: Tensor, second: Tensor) -> Tensor:
    """Compute the cosines of corresponding rows, at least in float32: (B, D), (B, D) -> (B,)."""
    return F.cosine_similarity(upcast(first), upcast(second), dim=-1)


def cosine_matrix(first: Tensor, second: Tensor) -> Tensor:
    """Compute the cosines of all rows with all rows, at least in float32: (B, D), (C, D) -> (B, C)."""
    return F.normalize(upcast(first), dim=-1) @ F.normalize(upcast(second), dim=-1).T


def require_labels(loss: Loss, labels: Tensor | None) -> Tensor:
    """Return the labels.

    Raises:
        ValueError: The batch has no labels.
    """
    if labels is None:
        raise ValueError(f"{type(loss).__name__} needs a label for each row, but got none.")
    return labels
