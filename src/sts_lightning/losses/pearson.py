"""Pearson's correlation as a loss."""

from __future__ import annotations

from torch import Tensor

from sts_lightning.losses.base import Loss, cosine_rows, require_labels
from sts_lightning.losses.correlation import correlation


class PearsonLoss(Loss):
    r"""One minus the correlation of cosine and gold score over the batch (Pcc-tuning, Eq. 8).

    .. math:: L = 1 - r, \quad r = \frac{\sum_i (x_i - \bar x)(y_i - \bar y)}
        {\sqrt{\sum_i (x_i - \bar x)^2} \sqrt{\sum_i (y_i - \bar y)^2}}

    with x the cosine of a pair and y its score. L lies in [0, 2] and does not change when the scores
    are shifted or multiplied by a positive number. Where all cosines or all scores of a batch are equal
    (standard deviation below 1e-6) r is undefined: it counts as 0 and the batch has no gradient.

    Deviation from the papers' code: that divides a mean over B by unbiased variances, which gives
    1 - r (B - 1) / B, and NaN on a constant batch.

    Args:
        official: Use the papers' 1 - r (B - 1) / B.
    """

    views = (2,)
    labels = ("score",)
    couples_rows = True

    def __init__(self, official: bool = False) -> None:
        super().__init__()
        self.official = official

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """Views (2, B, D) and scores (B,) to a scalar; see `Loss.forward`."""
        cosines = cosine_rows(views[0], views[1])
        r = correlation(cosines, require_labels(self, labels).to(cosines.dtype))
        size = len(cosines)
        return 1 - r * (size - 1) / size if self.official else 1 - r
