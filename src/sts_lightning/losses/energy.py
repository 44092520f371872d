"""PromCSE's hinge on the hardest negative."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from sts_lightning.losses.base import (
    Loss,
    Needs,
    check_not_negative,
    cosine_matrix,
    false_negatives,
    require_negatives,
)


class EnergyLoss(Loss):
    r"""Hinge that keeps the hardest negative a margin below the positive (PromCSE, Jiang et al. 2022, Eq. 8).

    .. math:: L = \frac1B \sum_i \max\Bigl(0,\; m + \max_{n \in N_i} \cos(z_i, n) - \cos(z_i, z_i^+)\Bigr)

    where N_i are the positives of the other rows and, with more than two views, all hard negatives, but for
    copies of the positive or the anchor (``mask_repeats``). A row without negatives has loss 0.

    Use it when InfoNCE already separates most negatives: added to `InfoNCELoss` by ``loss=mix``, it acts
    only on rows whose hardest negative is too close. PromCSE adds it with weight 10
    (``experiment=promcse_sup``). The value is that of `PromCSE's code
    <https://github.com/YJiangcm/PromCSE/blob/4b319380fa13d018811dd0631bcbeee838c3218e/promcse/models.py#L247-L259>`_,
    which multiplies the temperature out of its cosines first.

    Args:
        margin: m, in cosines, not negative; PromCSE: 0.2.
        mask_repeats: Whether to leave out candidates with the text of the anchor or of a positive of it.

    Example:
        >>> loss = EnergyLoss()
        >>> value = loss(torch.randn(3, 8, 16))
    """

    needs = Needs(
        views=(2, 3), more_views=True, labels=("none",), optional_inputs=("sentence_ids",), min_batch=2
    )

    def __init__(self, margin: float = 0.2, mask_repeats: bool = True) -> None:
        super().__init__()
        check_not_negative(margin=margin)
        self.margin = margin
        self.mask_repeats = mask_repeats

    def forward(
        self, views: Tensor, labels: Tensor | None = None, sentence_ids: Tensor | None = None
    ) -> Tensor:
        """Compute the loss of views (V, B, D), V and B at least 2; labels are ignored. See `Loss.forward`.

        Args:
            views: Anchors, positives[, hard negatives ...].
            labels: Ignored.
            sentence_ids: Numbers of the sentences, see `false_negatives`; None leaves out nothing.

        Raises:
            ValueError: A batch of one row without hard negatives has no negatives.
        """
        require_negatives(self, views)
        cosines = torch.cat([cosine_matrix(views[0], other) for other in views[1:]], dim=1)
        left_out = torch.eye(*cosines.shape, dtype=torch.bool, device=views.device)
        left_out = left_out | false_negatives(views, sentence_ids if self.mask_repeats else None)
        hardest = cosines.masked_fill(left_out, -torch.inf).amax(dim=1)
        return F.relu(self.margin + hardest - cosines.diagonal()).mean()
