"""CoDiEmb's divergence of ranks."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from sts_lightning.losses.base import Loss, Needs, check_positive, cosine_rows, require
from sts_lightning.losses.spearman import mid_ranks


class RankKLLoss(Loss):
    r"""Divergence of the softmax of the cosines from that of the gold ranks (CoDiEmb, Zhang et al. 2025).

    .. math:: L = \frac1B \sum_i p_i \log \frac{p_i}{q_i}, \quad
        p = \sigma\left(\frac{R(y) - 1}{(B - 1)\,t}\right), \quad q = \sigma\left(\frac{x}{t}\right)

    with x the cosine of a pair, R(y) the rank of its score in the batch, from 1 for the lowest, equal scores
    sharing their mean rank, and :math:`\sigma` the softmax over the batch, which is a single list. The mean
    over B is that of `the authors' code
    <https://github.com/TencentCloudADP/youtu-embedding/blob/9a0d6f342d16c4580f17884c403bfd4a73fa6fdf/training/CoDiEmb/train/loss.py#L179-L225>`_,
    with which their weight of 5 goes. L is 0 where the cosines are the ranks, spread evenly over a range of
    1.

    Use it as a term of ``experiment=codiemb_sts``, beside `PearsonLoss`. It is `ListNetLoss` with ranks in
    the place of scores: the highest ranks count most.

    Args:
        temperature: t, positive. CoDiEmb: 0.05.

    Example:
        >>> loss = RankKLLoss()
        >>> value = loss(torch.randn(2, 8, 16), 5 * torch.rand(8))
    """

    needs = Needs(views=(2,), labels=("score", "class"))

    def __init__(self, temperature: float = 0.05) -> None:
        super().__init__()
        check_positive(temperature=temperature)
        self.temperature = temperature

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """Compute the loss of views (2, B, D) and scores or ordered classes (B,); see `Loss.forward`."""
        logits = cosine_rows(views[0], views[1]) / self.temperature
        ranks = mid_ranks(require(self, labels=labels)) - 1
        gold = (ranks / max(1, len(ranks) - 1)).to(logits.dtype) / self.temperature
        target, predicted = gold.log_softmax(dim=0), logits.log_softmax(dim=0)
        return F.kl_div(predicted, target, reduction="sum", log_target=True) / len(ranks)
