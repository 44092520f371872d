"""PromCSE's hinge on the hardest negative."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from sts_lightning.losses.base import Loss, cosine_matrix


class EnergyLoss(Loss):
    r"""The positive beats the hardest negative by a margin (Jiang et al. 2022, "PromCSE", Eq. 8).

    .. math:: L = \frac1B \sum_i \max\Bigl(0,\; m + \max_{n \in N_i} \cos(z_i, n) - \cos(z_i, z_i^+)\Bigr)

    where N_i are the positives of the other rows and, with three views, all hard negatives. PromCSE adds
    it with weight 10 to InfoNCE: see experiment=promcse_sup.

    Args:
        margin: m, in cosines, not negative.
    """

    views = (2, 3)
    labels = ("none",)

    def __init__(self, margin: float = 0.2) -> None:
        super().__init__()
        if not 0 <= margin < math.inf:
            raise ValueError(f"margin must be finite and not negative, got {margin}.")
        self.margin = margin

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """Views (2 or 3, B, D), B at least 2, to a scalar; labels are not used. See `Loss.forward`.

        Raises:
            ValueError: A batch of one row without hard negatives.
        """
        size = views.shape[1]
        if size < 2 and len(views) < 3:
            raise ValueError("EnergyLoss needs at least two rows.")
        cosines = cosine_matrix(views[0], views[1])
        own = torch.eye(size, dtype=torch.bool, device=views.device)
        negatives = cosines.masked_fill(own, -torch.inf)
        if len(views) == 3:
            negatives = torch.cat([negatives, cosine_matrix(views[0], views[2])], dim=1)
        return F.relu(self.margin + negatives.amax(dim=1) - cosines.diagonal()).mean()
