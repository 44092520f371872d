"""The contrastive loss of SimCSE."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from sts_lightning.errors import ConfigError
from sts_lightning.losses.base import Loss, cosine_matrix


class InfoNCELoss(Loss):
    r"""Cross-entropy of the positive among all positives and hard negatives (SimCSE, Eq. 5).

    .. math:: L = -\frac{1}{B} \sum_i \log \frac{e^{\cos(z_i, z_i^+) / \tau}}
        {\sum_j e^{\cos(z_i, z_j^+) / \tau} + \sum_j e^{\cos(z_i, z_j^-) / \tau + w \delta_{ij}}}

    The anchor looks for its positive, not the reverse. With two views there are no hard negatives and
    the second sum is absent.

    Args:
        temperature: tau, positive.
        hard_negative_weight: w, added to the logit of an anchor's own hard negative.
    """

    views = (2, 3)
    label = "none"
    couples_rows = True

    def __init__(self, temperature: float = 0.05, hard_negative_weight: float = 0.0) -> None:
        super().__init__()
        if temperature <= 0:
            raise ConfigError(f"loss.temperature must be positive, got {temperature}.")
        self.temperature = temperature
        self.hard_negative_weight = hard_negative_weight

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """Views (2 or 3, B, D) to a scalar; labels are not used. See `Loss.forward`."""
        logits = cosine_matrix(views[0], views[1]) / self.temperature  # (B, B)
        target = torch.arange(len(logits), device=logits.device)
        if len(views) == 3:
            negatives = cosine_matrix(views[0], views[2]) / self.temperature
            own = torch.eye(len(logits), device=logits.device)
            logits = torch.cat([logits, negatives + self.hard_negative_weight * own], dim=1)  # (B, 2B)
        return F.cross_entropy(logits, target)
