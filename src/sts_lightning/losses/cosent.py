"""CoSENT: a ranking loss on the cosines of scored pairs."""

from __future__ import annotations

import torch
from torch import Tensor

from sts_lightning.losses.base import Loss, Needs, check_positive, cosine_rows, require


class CoSENTLoss(Loss):
    r"""Penalises every two pairs whose cosines are ordered differently from their gold scores (Su 2022).

    .. math:: L = \log\Bigl(1 + \sum_{i,j:\, y_i < y_j} e^{s (x_i - x_j)}\Bigr)

    with x the cosine of a pair and y its score, of which only the order matters. L is 0 on a batch of
    equal scores. It is computed in O(B log B) time and O(B) memory, where the usual form takes O(B^2).

    Use it when the scores rank the pairs but their distances mean little, or when the labels are ordered
    classes. `AnglELoss` is CoSENT with another similarity; `SpearmanLoss` also uses the order only, but
    measures it over the whole batch; `PearsonLoss` uses the values of the scores.

    Args:
        scale: s, positive; the inverse of a temperature. The author's code: 20.

    Example:
        >>> loss = CoSENTLoss()
        >>> value = loss(torch.randn(2, 8, 16), 5 * torch.rand(8))
    """

    needs = Needs(views=(2,), labels=("score", "class"), different_labels=True)

    def __init__(self, scale: float = 20.0) -> None:
        super().__init__()
        check_positive(scale=scale)
        self.scale = scale

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """Compute the loss of views (2, B, D) and scores or ordered classes (B,); see `Loss.forward`."""
        return misordered(self.scale * self.similarity(views[0], views[1]), require(self, labels=labels))

    def similarity(self, first: Tensor, second: Tensor) -> Tensor:
        """Compute the similarities to rank, here cosines of corresponding rows: (B, D), (B, D) -> (B,)."""
        return cosine_rows(first, second)


def misordered(similarities: Tensor, labels: Tensor) -> Tensor:
    """Compute log(1 + sum of exp(s_i - s_j) over all i, j with y_i < y_j).

    With rows sorted by label, the sum over i is a cumulative sum up to the last row of a lower label.

    Args:
        similarities: s, shape (B,).
        labels: y, shape (B,).

    Returns:
        A scalar.
    """
    labels, order = labels.sort(stable=True)
    s = similarities[order]
    lower = torch.searchsorted(labels, labels)  # for each row, the number of rows below its label
    terms = s.logcumsumexp(0)[(lower - 1).clamp(min=0)] - s
    # Rows without a lower one are masked, since a GPU would have to be asked how many others there are.
    terms = terms.masked_fill(lower == 0, -torch.inf)
    # exp(0) is the 1 in the logarithm; 0 * s propagates a NaN even where all labels are equal.
    return torch.cat([0 * s.sum().reshape(1), terms]).logsumexp(0)
