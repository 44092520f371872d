"""The contrastive loss of SimCSE."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from sts_lightning.losses.base import Loss, Needs, check, check_positive, cosine_matrix, false_negatives


class InfoNCELoss(Loss):
    r"""Cross-entropy of the positive among all positives and negatives (SimCSE, Eq. 1 and 5).

    .. math:: L = -\frac{1}{B} \sum_i \log \frac{e^{\cos(z_i, z_i^+) / \tau}}
        {\sum_j e^{\cos(z_i, z_j^+) / \tau} + \sum_j e^{\cos(z_i, z_j^-) / \tau + w \delta_{ij}}
        + \sum_n e^{\cos(z_i, q_n) / \tau}}

    in one direction, from anchors to positives. With two views there are no hard negatives and the second
    sum is absent; with V > 3 it is over all V - 2 hard negatives of each row. The third is over further
    negatives q, such as those of a momentum queue. ``positive_negatives`` adds the terms cos(z_i^+, z_j^-)
    to the denominator of row i (CoT-BERT, Eq. 6, and `its code
    <https://github.com/ZBWpro/CoT-BERT/blob/3aa7bb44e3836c67a35a16ca8feee4bf29d8a900/models.py#L296-L298>`_).

    ``symmetric`` adds the terms cos(z_i^+, z_j), also of j = i, and ``same_side`` adds cos(z_i, z_j) and,
    with z_j^+ and z_j^-, cos(z_i^+, z_j^+), each of j other than i. With both it is the two-sided loss of
    `GTE <https://arxiv.org/abs/2308.03281>`_ (Li et al. 2023, Sec. 3.3).

    A sentence of another row with the text of z_i, of z_i^+ or of another positive that the training data
    have for z_i is left out of the denominator of row i, and so is such a hard negative of row i itself
    (``mask_repeats``): where many rows share few answers, or few questions, texts that belong together would
    be pushed apart. ``symmetric`` leaves out each z_j of which z_i^+ is a positive, and ``same_side`` two
    anchors, or two positives, of rows of which one's positive is one of the other's anchor too. The further
    negatives q are not compared.

    Use it when there are positives but no scores: similar pairs, sentences encoded twice, or NLI triplets.
    `DecoupledLoss` leaves the positive out of the denominator, `MixCSELoss` adds harder negatives,
    `HardnessLoss` weights hard negatives, `GISTLoss` drops false ones, `EnergyLoss` has a margin to the
    hardest one, `SigmoidLoss` judges each pair by itself, and `IBNLoss` is the form for scored pairs.

    Args:
        temperature: tau, positive.
        hard_negative_weight: w, added to the logit of the hard negative of the same row.
        positive_negatives: Whether the denominator has the similarities of positives to hard negatives too.
        mask_repeats: Whether to leave out candidates with the text of the anchor or of a positive of it.
        symmetric: Whether the anchors of other rows are negatives of a positive.
        same_side: Whether anchors are negatives of each other, and positives and hard negatives of positives.

    Example:
        >>> loss = InfoNCELoss()
        >>> value = loss(torch.randn(3, 8, 16))
    """

    needs = Needs(
        views=(2, 3), more_views=True, labels=("none",), optional_inputs=("negatives", "sentence_ids")
    )

    def __init__(
        self,
        temperature: float = 0.05,
        hard_negative_weight: float = 0.0,
        positive_negatives: bool = False,
        mask_repeats: bool = True,
        symmetric: bool = False,
        same_side: bool = False,
    ) -> None:
        super().__init__()
        check_positive(temperature=temperature)
        check(math.isfinite(hard_negative_weight), "be finite", hard_negative_weight=hard_negative_weight)
        self.temperature = temperature
        self.hard_negative_weight = hard_negative_weight
        self.positive_negatives = positive_negatives
        self.mask_repeats = mask_repeats
        self.symmetric = symmetric
        self.same_side = same_side

    def forward(
        self,
        views: Tensor,
        labels: Tensor | None = None,
        negatives: Tensor | None = None,
        sentence_ids: Tensor | None = None,
    ) -> Tensor:
        """Compute the loss of views (V, B, D), V at least 2; labels are ignored. See `Loss.forward`.

        Args:
            views: Anchors, positives[, hard negatives ...].
            labels: Ignored.
            negatives: Further negatives of every anchor, (N, D); may be empty.
            sentence_ids: Numbers of the sentences, see `false_negatives`; None leaves out nothing.
        """
        size, ids = views.shape[1], sentence_ids if self.mask_repeats else None
        repeated, anchors = false_negatives(views, ids), false_negatives(views, ids, slice(0, 1))
        paired = repeated[:, :size]  # anchors with the positives of other rows that are theirs too
        own = torch.eye(size, dtype=torch.bool, device=views.device)
        logits = [cosine_matrix(views[0], views[1]) / self.temperature]  # (B, B)
        left_out = [repeated]
        weight = self.hard_negative_weight * own
        logits += [cosine_matrix(views[0], hard) / self.temperature + weight for hard in views[2:]]
        if self.positive_negatives:
            logits += [cosine_matrix(views[1], hard) / self.temperature for hard in views[2:]]
            left_out += [repeated[:, size:]]
        if self.symmetric:
            logits += [cosine_matrix(views[1], views[0]) / self.temperature]
            left_out += [anchors | paired.T]
        if self.same_side:
            logits += [cosine_matrix(views[0], views[0]) / self.temperature]
            logits += [cosine_matrix(views[1], views[1:].flatten(0, 1)) / self.temperature]
            positives = repeated | own.repeat(1, len(views) - 1)
            positives[:, :size] |= paired.T
            left_out += [anchors | paired | paired.T | own, positives]
        candidates = torch.cat(logits, dim=1).masked_fill(torch.cat(left_out, dim=1), -torch.inf)
        if negatives is not None:
            further = cosine_matrix(views[0], negatives) / self.temperature
            candidates = torch.cat([candidates, further], dim=1)
        return F.cross_entropy(candidates, torch.arange(size, device=views.device))
