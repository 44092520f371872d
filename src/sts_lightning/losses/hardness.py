"""Contrastive learning with weighted hard negatives."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from sts_lightning.losses.base import (
    Loss,
    Needs,
    check,
    check_not_negative,
    check_positive,
    cosine_matrix,
    false_negatives,
    require_negatives,
)


class HardnessLoss(Loss):
    r"""InfoNCE with negatives weighted by their similarity (Robinson et al. 2021, arXiv 2010.04592).

    .. math:: L = -\frac1B \sum_i \log \frac{e^{p_i}}{e^{p_i} + Q\,G_i}, \quad
        G_i = \max\Bigl(e^{-1/\tau},\; \frac{1}{1 - \pi}
        \Bigl(\sum_j w_{ij} e^{n_{ij}} - \pi e^{p_i}\Bigr)\Bigr), \quad
        w_{ij} = \frac{e^{\beta n_{ij}}}{\sum_k e^{\beta n_{ik}}}

    with :math:`p_i = \cos(z_i, z_i^+) / \tau` and n the same of the Q negatives of an anchor: the positives
    of the other rows and, with more than two views, all hard negatives, but for copies of the positive or
    the anchor (``mask_repeats``); the loss of a row without negatives is 0. The prior pi is the assumed
    fraction of false negatives, whose share is subtracted (Chuang et al. 2020, "Debiased contrastive
    learning"). With beta = 0 and pi = 0 it is `InfoNCELoss`. The weights w have a gradient, as in `the
    authors' code
    <https://github.com/joshr17/HCL/blob/7b4647fac271c78a2a9d619fe3f2929ecfaf33df/image/main.py#L30-L58>`_,
    which also takes positives as anchors, and other anchors as negatives.

    Use it when most negatives are easy. Where batches contain false negatives, raise ``prior`` with
    ``hardness``, or mask them with `GISTLoss`; `MixCSELoss` makes harder negatives instead of weighting.

    Args:
        temperature: tau, positive.
        hardness: beta, not negative; 0 weighs all negatives alike.
        prior: pi in [0, 1).
        mask_repeats: Whether to leave out candidates with the text of the anchor or of a positive of it.

    Example:
        >>> loss = HardnessLoss()
        >>> value = loss(torch.randn(2, 8, 16))
    """

    needs = Needs(
        views=(2, 3), more_views=True, labels=("none",), optional_inputs=("sentence_ids",), min_batch=2
    )

    def __init__(
        self, temperature: float = 0.05, hardness: float = 1.0, prior: float = 0.0, mask_repeats: bool = True
    ) -> None:
        super().__init__()
        check_positive(temperature=temperature)
        check_not_negative(hardness=hardness)
        check(0 <= prior < 1, "lie in [0, 1)", prior=prior)
        self.temperature = temperature
        self.hardness = hardness
        self.prior = prior
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
        logits = cosine_matrix(views[0], views[1:].flatten(0, 1)) / self.temperature
        positives = logits.diagonal()
        left_out = torch.eye(*logits.shape, dtype=torch.bool, device=logits.device)
        left_out = left_out | false_negatives(views, sentence_ids if self.mask_repeats else None)
        empty = left_out.all(dim=1)
        left_out = left_out & ~empty[:, None]  # an empty row keeps finite gradients, and is dropped below
        negative = logits.masked_fill(left_out, -torch.inf)
        log_count = (~left_out).sum(dim=1).double().log().to(logits.dtype)
        weights = (self.hardness * logits).masked_fill(left_out, -torch.inf).logsumexp(dim=1)
        mean = ((1 + self.hardness) * negative).logsumexp(dim=1) - weights
        # In logarithms: exp(mean) - prior exp(positive) = exp(mean) (1 - prior exp(positive - mean)).
        # The last exponential is clamped, since from exp(89) on it is infinite in float32.
        share = self.prior * (positives - mean).clamp(max=80).exp()
        rest = mean + torch.log1p(-torch.where(share < 1, share, 0.0)) - math.log1p(-self.prior)
        least = torch.full_like(rest, -1 / self.temperature)
        hard = torch.where(share >= 1, least, torch.maximum(rest, least))
        return F.softplus(log_count + hard - positives).masked_fill(empty, 0.0).mean()
