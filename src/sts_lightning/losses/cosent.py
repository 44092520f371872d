"""CoSENT: pairs in the right order."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sts_lightning.losses.base import Loss, cosine_rows, require_labels


class CoSENTLoss(Loss):
    r"""Every pair of pairs whose cosines stand in the wrong order costs (Su 2022, "CoSENT").

    .. math:: L = \log\Bigl(1 + \sum_{i,j:\, y_i < y_j} e^{s (x_i - x_j)}\Bigr)

    with x the cosine of a pair and y its score, of which only the order matters. L is 0 on a batch of
    equal scores. Computed in O(B log B) time and O(B) memory, where the usual form takes O(B^2).

    Args:
        scale: s, positive.
    """

    views = (2,)
    labels = ("score", "class")

    def __init__(self, scale: float = 20.0) -> None:
        super().__init__()
        if not 0 < scale < math.inf:
            raise ValueError(f"scale must be positive and finite, got {scale}.")
        self.scale = scale

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """Views (2, B, D) and scores or ordered classes (B,) to a scalar; see `Loss.forward`."""
        return misordered(self.scale * self.similarity(views[0], views[1]), require_labels(self, labels))

    def similarity(self, first: Tensor, second: Tensor) -> Tensor:
        """What is put in order: the cosine of corresponding rows, (B, D), (B, D) -> (B,)."""
        return cosine_rows(first, second)


def misordered(similarities: Tensor, labels: Tensor) -> Tensor:
    r"""log(1 + sum of exp(s_i - s_j) over all i, j with y_i < y_j).

    In the order of labels the sum over i is a cumulative sum, read at the last row of a lower label.

    Args:
        similarities: s, shape (B,).
        labels: y, shape (B,).

    Returns:
        A scalar.
    """
    labels, order = labels.sort(stable=True)
    s = similarities[order]
    lower = torch.searchsorted(labels, labels)  # for each row, how many have a lower label
    has_lower = lower > 0
    terms = s.logcumsumexp(0)[(lower - 1).clamp(min=0)] - s
    # The zero is the 1 under the logarithm; adding 0 * s hands a NaN on where no pair has an order.
    return torch.cat([0 * s.sum().reshape(1), terms[has_lower]]).logsumexp(0)
