"""Differentiable form of Kendall's correlation as a loss."""

from __future__ import annotations

import torch
from torch import Tensor

from sts_lightning.losses.base import Loss, cosine_rows, positive, require
from sts_lightning.losses.pearson import RESOLUTION
from sts_lightning.losses.spearman import in_deviations


class KendallLoss(Loss):
    r"""One minus a smooth form of Kendall's rank correlation tau-b of cosines and gold scores.

    .. math:: L = 1 - \frac{\sum_{ij} a_{ij} b_{ij}}{\sqrt{\sum_{ij} a_{ij}^2} \sqrt{\sum_{ij} b_{ij}^2}},
        \quad a_{ij} = \tanh\frac{x_i - x_j}{t\,s}, \quad b_{ij} = \mathrm{sign}(y_i - y_j)

    with x the cosine of a pair, y its score, and s the standard deviation of the batch's cosines. As t goes
    to 0 the tanh becomes a sign and the fraction Kendall's tau-b, whose two roots correct for ties. Because
    of s the loss does not change when all cosines are shifted or scaled; of the scores only the order
    matters. L lies in [0, 2]; time and memory are O(B^2). On a batch of equal cosines or equal scores the
    correlation is taken as 0 and there is no gradient. Smoothing the sign is the usual relaxation; no paper
    that this project reproduces has this loss.

    Use it when every two pairs in the wrong order should count alike. `SpearmanLoss` weighs them by the
    distance of their ranks; `CoSENTLoss` also compares two pairs at a time, but its log-sum-exp is ruled by
    the worst of them, while a pair of pairs counts at most once here, so that wrong gold scores do less harm.

    Args:
        temperature: t, positive, in standard deviations of the cosines.

    Example:
        >>> loss = KendallLoss()
        >>> value = loss(torch.randn(2, 8, 16), 5 * torch.rand(8))
    """

    views = (2,)
    labels = ("score", "class")
    compares = True

    def __init__(self, temperature: float = 0.2) -> None:
        super().__init__()
        positive(temperature=temperature)
        self.temperature = temperature

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """Compute the loss of views (2, B, D) and scores or ordered classes (B,); see `Loss.forward`."""
        cosines = in_deviations(cosine_rows(views[0], views[1]))
        return 1 - soft_tau(cosines, require(self, labels=labels), self.temperature)


def soft_tau(x: Tensor, y: Tensor, temperature: float) -> Tensor:
    """Compute tau-b with the sign of differences of x replaced by a tanh: (B,), (B,) -> scalar in [-1, 1].

    Where all x (standard deviation below `RESOLUTION`) or all y are equal it is undefined: it is taken as 0
    and has no gradient. A NaN in x gives NaN.
    """
    a = torch.tanh((x[:, None] - x[None, :]) / temperature)
    b = torch.sign(y[:, None] - y[None, :]).to(x.dtype)
    undefined = (x.var(correction=0) <= RESOLUTION**2) | (b.count_nonzero() == 0)
    squares = a.square().sum() * b.square().sum()
    root = torch.where(undefined, 1.0, squares).sqrt()
    # 0 * x propagates a NaN even where all labels are equal.
    return torch.where(undefined, 0 * x.sum(), (a * b).sum() / root)
