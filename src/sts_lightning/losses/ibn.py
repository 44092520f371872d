"""In-batch negatives for scored pairs, a part of AnglE's objective."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from sts_lightning.losses.base import TOP_SCORE, Loss, cosine_matrix, require_labels


class IBNLoss(Loss):
    r"""InfoNCE among all 2B sentences of a batch of scored pairs (AnglE, Sec. 3.2.2).

    .. math:: L = -\frac{1}{2B} \sum_{i \in P} \log
        \frac{e^{s \cos(z_i, z_{i'})}}{\sum_{j \ne i} e^{s \cos(z_i, z_j)}}

    where P are the sentences of the positive pairs and i' is the other sentence of i's pair. The mean is
    over all 2B sentences, and those of negative pairs contribute 0, as in `AnglE's code
    <https://github.com/SeanLee97/AnglE/blob/5155458cfa6f7fbc7a8a19a66960cd86eadfd534/angle_emb/loss.py#L96-L144>`_.

    Use it when scored pairs also serve as contrastive data, usually as a term of ``loss=mix``. Unlike
    `InfoNCELoss` it reads scores, looks for the partner in both directions, and takes the sentences of both
    columns as negatives.

    Args:
        scale: s, positive; the inverse of a temperature.
        positive_from: Lowest score of a positive pair.

    Example:
        >>> loss = IBNLoss()
        >>> value = loss(torch.randn(2, 8, 16), 5 * torch.rand(8))
    """

    views = (2,)
    labels = ("score",)

    def __init__(self, scale: float = 20.0, positive_from: float = 4.0) -> None:
        super().__init__()
        if not 0 < scale < math.inf:
            raise ValueError(f"scale must be positive and finite, got {scale}.")
        if not 0 < positive_from <= TOP_SCORE:
            raise ValueError(f"positive_from must lie in (0, {TOP_SCORE:g}], got {positive_from}.")
        self.scale = scale
        self.positive_from = positive_from

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """Compute the loss of views (2, B, D) and scores (B,); see `Loss.forward`."""
        sentences = views.flatten(0, 1)
        logits = self.scale * cosine_matrix(sentences, sentences)
        itself = torch.eye(len(logits), dtype=torch.bool, device=logits.device)
        partner = torch.arange(len(logits), device=logits.device).roll(views.shape[1])
        rows = F.cross_entropy(logits.masked_fill(itself, -torch.inf), partner, reduction="none")
        positive = require_labels(self, labels) >= self.positive_from
        return (rows * positive.repeat(2)).mean()
