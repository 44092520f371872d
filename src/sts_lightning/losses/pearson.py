"""Pearson's correlation as a loss."""

from __future__ import annotations

import torch
from torch import Tensor

from sts_lightning.losses.base import Loss, Needs, cosine_rows, require

RESOLUTION = 1e-6
"""Standard deviation below which float32 cosines differ by rounding alone."""


class PearsonLoss(Loss):
    r"""One minus the Pearson correlation of cosine and gold score over the batch (Pcc-tuning, Eq. 8).

    .. math:: L = 1 - r, \quad r = \frac{\sum_i (x_i - \bar x)(y_i - \bar y)}
        {\sqrt{\sum_i (x_i - \bar x)^2} \sqrt{\sum_i (y_i - \bar y)^2}}

    with x the cosine of a pair and y its score. L lies in [0, 2] and does not change when the scores
    are shifted or multiplied by a positive number. Where all cosines or all scores of a batch are equal
    (standard deviation below 1e-6) r is undefined: it is taken as 0 and the batch has no gradient.

    Use it when pairs have fine-grained scores and batches are large enough for a correlation.
    `SpearmanLoss` correlates ranks, `CoSENTLoss` uses the order only, `CosineMSELoss` fixes the
    values as well, and `ConcordanceLoss` does both.

    The paper's code computes 1 - r (B - 1) / B (`papers.losses.paper_code.PaperCodePearsonLoss`).

    Example:
        >>> loss = PearsonLoss()
        >>> value = loss(torch.randn(2, 8, 16), 5 * torch.rand(8))
    """

    needs = Needs(views=(2,), labels=("score",), different_labels=True)

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """Compute the loss of views (2, B, D) and scores (B,); see `Loss.forward`."""
        cosines = cosine_rows(views[0], views[1])
        return 1 - pearson_correlation(cosines, require(self, labels=labels).to(cosines.dtype))


def pearson_correlation(x: Tensor, y: Tensor) -> Tensor:
    """Compute Pearson's correlation: (B,), (B,) -> scalar in [-1, 1].

    Where the standard deviation of either list is below `RESOLUTION` the correlation is undefined: it is
    taken as 0 and has no gradient. A NaN in either list gives NaN.
    """
    x, y = x - x.mean(), y - y.mean()
    variance_x, variance_y = x.square().mean(), y.square().mean()
    # Tested before the root, whose gradient is infinite at zero; in this form NaN counts as defined.
    undefined = torch.minimum(variance_x, variance_y) <= RESOLUTION**2
    root = torch.where(undefined, 1.0, variance_x * variance_y).sqrt()
    return torch.where(undefined, 0.0, (x * y).mean() / root)
