"""MixCSE: harder negatives by mixing."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from sts_lightning.losses.base import (
    Loss,
    Needs,
    check,
    check_positive,
    cosine_matrix,
    false_negatives,
    upcast,
)


class MixCSELoss(Loss):
    r"""InfoNCE with negatives that contain a part of the positive (Zhang et al. 2022, "MixCSE", Eq. 5).

    .. math:: m_j = \mathrm{sg}\bigl(\lambda z_j^+ + (1 - \lambda) z_{j+1}^+\bigr), \quad
        L = -\frac1B \sum_i \log \frac{e^{\cos(z_i, z_i^+) / \tau}}
        {\sum_j e^{\cos(z_i, z_j^+) / \tau} + \sum_{j \neq i-1} e^{\cos(z_i, m_j) / \tau}}

    with unit vectors z, j + 1 modulo B, and no gradient through m. The mixture j = i - 1 is left out, since
    it is mostly the positive of i. With ``mask_repeats`` every j is left out where z_{j+1}^+ has the text of
    the positive or the anchor of i.

    Use it when training without labels or hard negatives. It is `InfoNCELoss` on two views with B - 1 more
    negatives for each anchor; with triplets, use the real hard negatives of `InfoNCELoss` instead.

    What the paper's code does otherwise is in `PaperCodeMixCSELoss`.

    Args:
        temperature: tau, positive.
        mix: lambda in [0, 1], the weight of the positive in a mixture; 0.2 in the paper's script.
        mask_repeats: Whether to leave out candidates with the text of the anchor or of a positive of it.

    Example:
        >>> loss = MixCSELoss()
        >>> value = loss(torch.randn(2, 8, 16))
    """

    needs = Needs(views=(2,), labels=("none",), optional_inputs=("sentence_ids",))

    def __init__(self, temperature: float = 0.05, mix: float = 0.2, mask_repeats: bool = True) -> None:
        super().__init__()
        check_positive(temperature=temperature)
        check(0 <= mix <= 1, "lie in [0, 1]", mix=mix)
        self.temperature = temperature
        self.mix = mix
        self.mask_repeats = mask_repeats

    def forward(
        self, views: Tensor, labels: Tensor | None = None, sentence_ids: Tensor | None = None
    ) -> Tensor:
        """Compute the loss of views (2, B, D); labels are ignored. See `Loss.forward`.

        Args:
            views: Anchors and positives.
            labels: Ignored.
            sentence_ids: Numbers of the sentences, see `false_negatives`; None leaves out nothing.
        """
        first, second = (F.normalize(upcast(view), dim=-1) for view in views)
        repeated = false_negatives(views, sentence_ids if self.mask_repeats else None)
        # Mixture j is mostly the positive of row j + 1.
        left_out = next_row(len(first), views.device).T | repeated.roll(-1, dims=1)
        blocks = [
            (cosine_matrix(first, second) / self.temperature).masked_fill(repeated, -torch.inf),
            (cosine_matrix(first, self.mixed(second)) / self.temperature).masked_fill(left_out, -torch.inf),
        ]
        target = torch.arange(len(first), device=views.device)
        return F.cross_entropy(torch.cat(blocks, dim=1), target)

    def mixed(self, vectors: Tensor) -> Tensor:
        """Mix each row with the next one, without gradient: (B, D) -> (B, D)."""
        mixed = self.mix * vectors + (1 - self.mix) * vectors.roll(-1, dims=0)
        return mixed.detach()


def next_row(size: int, device: torch.device) -> Tensor:
    """Return a mask (B, B) of each row i and the row i + 1."""
    return torch.eye(size, dtype=torch.bool, device=device).roll(1, dims=1)
