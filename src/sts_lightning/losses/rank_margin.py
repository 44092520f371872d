"""RAOE's rank margin."""

from __future__ import annotations

import math

from torch import Tensor

from sts_lightning.losses.base import not_negative, require
from sts_lightning.losses.cosent import CoSENTLoss, misordered
from sts_lightning.losses.spearman import mid_ranks


class RankMarginLoss(CoSENTLoss):
    r"""CoSENT on pairs that are far apart in rank (RAOE, Zhou et al., EMNLP 2025).

    .. math:: L = \log\Bigl(1 + \sum_{i,j:\, R(y)_j - R(y)_i > g} e^{s (x_i - x_j)}\Bigr)

    with x the cosine of a pair and R(y) the rank of its score in the batch. Scores that differ little are
    often in the wrong order, which the gap g keeps out. With g = 0 it is `CoSENTLoss`. A batch of at most
    g + 1 pairs has nothing to compare, so that L is 0: choose the gap in proportion to ``data.batch_size``.
    ``observed`` has the fraction of comparisons that the gap leaves.

    The equation is that of `the authors' code
    <https://github.com/Shengjingwa/RAOE/blob/c8d14d57eb47a8d3995e332f99bf4f1bd79f59be/RAOE/loss.py#L6-L41>`_,
    which breaks ties of scores in the order of the batch; here equal scores share their mean rank, and are
    never compared.

    Use it when gold scores are noisy, such as those of another model, and batches are large.
    `SpearmanLoss` and `KendallLoss` use all ranks.

    Args:
        scale: s, positive; the inverse of a temperature.
        gap: g, not negative, in ranks.

    Example:
        >>> loss = RankMarginLoss(gap=2.0)
        >>> value = loss(torch.randn(2, 8, 16), 5 * torch.rand(8))
    """

    def __init__(self, scale: float = 20.0, gap: float = 16.0) -> None:
        super().__init__(scale)
        not_negative(gap=gap)
        self.gap = gap
        self.least_batch = math.floor(gap) + 2

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """Compute the loss of views (2, B, D) and scores or ordered classes (B,); see `Loss.forward`."""
        ranks = mid_ranks(require(self, labels=labels))
        compared = (ranks[:, None] - ranks[None, :] > self.gap).sum()
        self.observed = {"compared": compared / max(1, len(ranks) * (len(ranks) - 1) / 2)}
        return misordered(self.scale * self.similarity(views[0], views[1]), ranks, self.gap)
