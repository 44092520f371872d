"""ListMLE on scored pairs."""

from __future__ import annotations

import torch
from torch import Tensor

from sts_lightning.losses.base import Loss, cosine_rows, positive, require


class ListMLELoss(Loss):
    r"""Negative log-likelihood of the gold order under a Plackett-Luce model (ListMLE, Xia et al. 2008).

    .. math:: L = -\frac1B \sum_i \log \frac{e^{s x_i}}{\sum_{j:\, y_j \le y_i} e^{s x_j}}

    with x the cosine of a pair and y its score, of which only the order matters. Pairs are drawn without
    replacement, each with a probability proportional to exp(s x); L is the negative log-probability of
    drawing them by descending score, as a mean over ranks. The batch is a single list.

    Pairs of equal score have no order. Each of them competes with all pairs of its score, which is Breslow's
    (1974) form of the likelihood: it does not depend on the order of the batch, and it is lowest where pairs
    of equal score have equal cosines. Without ties it is ListMLE. O(B log B) time and O(B) memory.

    Use it when the scores rank the pairs but their distances mean little. `CoSENTLoss` sums over pairs of
    pairs instead and ignores ties; `ListNetLoss` uses the values and looks at the top of the list;
    `RankCSELoss` has ListMLE for lists of a teacher.

    Args:
        scale: s, positive; the inverse of a temperature.

    Example:
        >>> loss = ListMLELoss()
        >>> value = loss(torch.randn(2, 8, 16), 5 * torch.rand(8))
    """

    views = (2,)
    labels = ("score", "class")

    def __init__(self, scale: float = 20.0) -> None:
        super().__init__()
        positive(scale=scale)
        self.scale = scale

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """Compute the loss of views (2, B, D) and scores or ordered classes (B,); see `Loss.forward`."""
        return plackett_luce(self.scale * cosine_rows(views[0], views[1]), require(self, labels=labels))


def plackett_luce(logits: Tensor, labels: Tensor) -> Tensor:
    """Compute the mean of log(sum of exp(s_j) over all j with y_j <= y_i) - s_i.

    With rows sorted by label, the sum over j is a cumulative sum up to the last row of the same label.

    Args:
        logits: s, shape (B,).
        labels: y, shape (B,).

    Returns:
        A scalar.
    """
    labels, order = labels.sort(stable=True)
    s = logits[order]
    last = torch.searchsorted(labels, labels, right=True) - 1
    return (s.logcumsumexp(0)[last] - s).mean()
