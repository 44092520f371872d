"""The contrastive loss of SimCSE."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from sts_lightning.losses.base import Loss, cosine_matrix


class InfoNCELoss(Loss):
    r"""Cross-entropy of the positive among all positives and negatives (SimCSE, Eq. 1 and 5).

    .. math:: L = -\frac{1}{B} \sum_i \log \frac{e^{\cos(z_i, z_i^+) / \tau}}
        {\sum_j e^{\cos(z_i, z_j^+) / \tau} + \sum_j e^{\cos(z_i, z_j^-) / \tau + w \delta_{ij}}
        + \sum_n e^{\cos(z_i, q_n) / \tau}}

    in one direction, from anchors to positives. With two views there are no hard negatives and the second
    sum is absent; the third is over further negatives q, such as those of a momentum queue. With three
    views ``positive_negatives`` adds the terms cos(z_i^+, z_j^-) to the denominator of row i (CoT-BERT,
    Eq. 6, and `its code
    <https://github.com/ZBWpro/CoT-BERT/blob/3aa7bb44e3836c67a35a16ca8feee4bf29d8a900/models.py#L296-L298>`_).

    Use it when there are positives but no scores: sentences encoded twice, or NLI triplets.
    `DecoupledLoss` leaves the positive out of the denominator, `MixCSELoss` adds harder negatives,
    `HardnessLoss` weights the hard ones, `GISTLoss` drops false ones, `EnergyLoss` adds a margin to the
    hardest one, `SigmoidLoss` judges each pair by itself, and `IBNLoss` is the form for scored pairs.

    Args:
        temperature: tau, positive.
        hard_negative_weight: w, added to the logit of an anchor's own hard negative.
        positive_negatives: Add the similarities of positives to hard negatives to the denominator.

    Example:
        >>> loss = InfoNCELoss()
        >>> value = loss(torch.randn(3, 8, 16))
    """

    views = (2, 3)
    labels = ("none",)
    takes = ("negatives",)

    def __init__(
        self,
        temperature: float = 0.05,
        hard_negative_weight: float = 0.0,
        positive_negatives: bool = False,
    ) -> None:
        super().__init__()
        check_temperature(temperature)
        if not math.isfinite(hard_negative_weight):
            raise ValueError(f"hard_negative_weight must be finite, got {hard_negative_weight}.")
        self.temperature = temperature
        self.hard_negative_weight = hard_negative_weight
        self.positive_negatives = positive_negatives

    def forward(self, views: Tensor, labels: Tensor | None = None, negatives: Tensor | None = None) -> Tensor:
        """Compute the loss of views (2 or 3, B, D); labels are ignored. See `Loss.forward`.

        Args:
            views: Anchors, positives[, hard negatives].
            labels: Ignored.
            negatives: Further negatives of every anchor, (N, D); may be empty.
        """
        logits = [cosine_matrix(views[0], views[1]) / self.temperature]  # (B, B)
        size = len(logits[0])
        if len(views) == 3:
            own = torch.eye(size, device=views.device)
            hard = cosine_matrix(views[0], views[2]) / self.temperature
            logits.append(hard + self.hard_negative_weight * own)
            if self.positive_negatives:
                logits.append(cosine_matrix(views[1], views[2]) / self.temperature)
        if negatives is not None:
            logits.append(cosine_matrix(views[0], negatives) / self.temperature)
        target = torch.arange(size, device=views.device)
        return F.cross_entropy(torch.cat(logits, dim=1), target)


def check_temperature(temperature: float) -> None:
    """Reject a temperature that is not positive and finite.

    Raises:
        ValueError: The temperature is out of range.
    """
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature must be positive and finite, got {temperature}.")
