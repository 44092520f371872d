"""Differentiable form of Spearman's correlation as a loss."""

from __future__ import annotations

import torch
from torch import Tensor

from sts_lightning.losses.base import Loss, Needs, check_positive, cosine_rows, require
from sts_lightning.losses.pearson import RESOLUTION, pearson_correlation


class SpearmanLoss(Loss):
    r"""One minus the correlation of soft ranks of the cosines with the mid-ranks of the gold scores.

    .. math:: L = 1 - r(\tilde R(x), R(y)), \quad
        \tilde R(x)_i = \frac12 + \sum_j \sigma\left(\frac{x_i - x_j}{t\,s}\right)

    with s the standard deviation of the batch's cosines x. As t goes to 0 the soft ranks become
    mid-ranks and L becomes one minus Spearman's correlation, ties included; as t grows the soft ranks
    become linear in x and L becomes one minus the correlation of cosines with gold ranks. Because of s
    the loss, like `PearsonLoss`, does not change when all cosines are shifted or scaled; the gold scores
    matter by their order alone. L lies in [0, 2]; time and memory are O(B^2). On a batch of equal
    cosines or equal scores the correlation is taken as 0 and there is no gradient. No paper that this
    project reproduces has this loss.

    Use it when the evaluation metric itself, Spearman's correlation, should be optimised. `PearsonLoss`
    correlates the values; `CoSENTLoss` also uses the order only, at O(B log B).

    Args:
        temperature: t, positive, in standard deviations of the cosines.

    Example:
        >>> loss = SpearmanLoss()
        >>> value = loss(torch.randn(2, 8, 16), 5 * torch.rand(8))
    """

    needs = Needs(views=(2,), labels=("score",), different_labels=True)

    def __init__(self, temperature: float = 0.2) -> None:
        super().__init__()
        check_positive(temperature=temperature)
        self.temperature = temperature

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """Compute the loss of views (2, B, D) and scores (B,); see `Loss.forward`."""
        ranks = soft_ranks(in_deviations(cosine_rows(views[0], views[1])), self.temperature)
        return 1 - pearson_correlation(ranks, mid_ranks(require(self, labels=labels)).to(ranks.dtype))


def in_deviations(values: Tensor) -> Tensor:
    """Divide values by their standard deviation, (B,) -> (B,); constant ones become 0, without gradient."""
    variance = values.var(correction=0)
    constant = variance <= RESOLUTION**2  # up to rounding, which the ranks would amplify
    return torch.where(constant, 0.0, values / torch.where(constant, 1.0, variance).sqrt())


def soft_ranks(values: Tensor, temperature: float) -> Tensor:
    """Compute differentiable ranks, (B,) -> (B,); their sum is that of 1 to B at any temperature."""
    return 0.5 + torch.sigmoid((values[:, None] - values[None, :]) / temperature).sum(dim=1)


def mid_ranks(values: Tensor) -> Tensor:
    """Compute ranks from 1, with the mean rank for ties: (B,) -> (B,) in float64."""
    return 0.5 + 0.5 * (1 + torch.sign(values[:, None] - values[None, :])).double().sum(dim=1)
