"""ListNet on scored pairs."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from sts_lightning.losses.base import Loss, Needs, check_positive, cosine_rows, require


class ListNetLoss(Loss):
    r"""Cross-entropy of the top-one probabilities of cosines and gold scores (ListNet, Cao et al. 2007).

    .. math:: L = -\sum_i \sigma_i(y / t) \log \sigma_i(s\,x)

    with x the cosine of a pair, y its score in [0, 5], and :math:`\sigma` the softmax over the batch: the
    probability that a pair is ranked first. The batch is a single list. L is at least the entropy of
    :math:`\sigma(y / t)`, which it reaches where s x and y / t differ by a constant.

    Use it when the highest scores matter most: a pair counts by its probability of being first, and the order
    of low scores has little weight. `PearsonLoss` also asks for a linear relation of cosine and score, but
    measures it alike at all scores; `RankCSELoss` has ListNet for lists of a teacher.

    Args:
        scale: s, positive; the inverse of a temperature.
        score_temperature: t, positive, in points of the score; towards 0 the highest score alone counts.

    Example:
        >>> loss = ListNetLoss()
        >>> value = loss(torch.randn(2, 8, 16), 5 * torch.rand(8))
    """

    needs = Needs(views=(2,), labels=("score",))

    def __init__(self, scale: float = 20.0, score_temperature: float = 1.0) -> None:
        super().__init__()
        check_positive(scale=scale, score_temperature=score_temperature)
        self.scale = scale
        self.score_temperature = score_temperature

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """Compute the loss of views (2, B, D) and scores (B,); see `Loss.forward`."""
        logits = self.scale * cosine_rows(views[0], views[1])
        gold = require(self, labels=labels).to(logits.dtype) / self.score_temperature
        return F.cross_entropy(logits, gold.softmax(dim=0))
