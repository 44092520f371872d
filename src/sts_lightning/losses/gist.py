"""InfoNCE without the negatives that a guide considers positives."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from sts_lightning.core.choices import EMPTY
from sts_lightning.losses.base import (
    Loss,
    Needs,
    check,
    check_positive,
    cosine_matrix,
    false_negatives,
    one_of,
    require,
    upcast,
)

Guide = Literal["self", "teacher"]
"""Source of the similarities that reveal false negatives: the model in training, or a teacher."""


class GISTLoss(Loss):
    r"""InfoNCE with masked false negatives (GISTEmbed, Solatorio 2024; Qwen3 Embedding, Zhang et al. 2025).

    .. math:: L = -\frac{1}{B} \sum_i \log \frac{e^{\cos(z_i, z_i^+) / \tau}}
        {\sum_{n \in N_i} e^{\cos(z_i, n) / \tau}}, \quad
        n \notin N_i \iff g_{in} > g_{ii} + m

    where the candidates are all positives of the batch and, with V > 2 views, all hard negatives. A candidate
    is left out if its similarity g by the guide exceeds that of the positive by more than a margin m. The
    positive and the hard negative of the same row never are, since the data vouch for them. Copies of the
    positive have the similarity g_ii itself; they are recognised by their text (``mask_repeats``).
    ``observed`` has the masked fraction of the other candidates.

    The guide is the model itself (``guide=self``; its similarities have no gradient here), as in Qwen3
    Embedding with m = 0.1 (arXiv 2506.05176); or a frozen teacher (``guide=teacher auxiliary=teacher``), as
    in GISTEmbed with m = 0 (arXiv 2402.16829), which knows false negatives before the model does. A teacher
    reads anchors and positives only, so it masks no hard negatives. GISTEmbed's further blocks (anchors
    against anchors, positives against positives) are absent, so that with nothing masked this is
    `InfoNCELoss`.

    Use it when batches contain paraphrases, as large batches of captions or questions do. Against copies
    `InfoNCELoss` is enough.
    `HardnessLoss` does the opposite and raises the weight of similar negatives.

    Args:
        temperature: tau, positive.
        guide: Source of g.
        margin: m, in cosines, in (-2, 2).
        mask_repeats: Whether to leave out candidates with the text of the anchor or of a positive of it.

    Example:
        >>> loss = GISTLoss()
        >>> value = loss(torch.randn(3, 8, 16))
    """

    needs = Needs(
        views=(2, 3), more_views=True, labels=("none",), optional_inputs=("teacher", "sentence_ids")
    )

    def __init__(
        self, temperature: float = 0.05, guide: Guide = "self", margin: float = 0.1, mask_repeats: bool = True
    ) -> None:
        super().__init__()
        check_positive(temperature=temperature)
        one_of(Guide, guide=guide)
        check(-2 < margin < 2, "lie in (-2, 2)", margin=margin)
        self.temperature = temperature
        self.guide: Guide = guide
        self.margin = margin
        self.mask_repeats = mask_repeats
        required = ("teacher",) if guide == "teacher" else ()
        self.needs = replace(self.needs, required_inputs=required, optional_inputs=("sentence_ids",))

    def forward(
        self,
        views: Tensor,
        labels: Tensor | None = None,
        teacher: Tensor | None = None,
        sentence_ids: Tensor | None = None,
    ) -> Tensor:
        """Compute the loss of views (V, B, D), V at least 2; labels are ignored. See `Loss.forward`.

        Args:
            views: Anchors, positives[, hard negatives ...].
            labels: Ignored.
            teacher: The teacher's similarities of anchors to positives, (B, B).
            sentence_ids: Numbers of the sentences, see `false_negatives`; None leaves out nothing.

        Raises:
            ValueError: The guide is a teacher, but there is none.
        """
        cosines = cosine_matrix(views[0], views[1:].flatten(0, 1))  # (B, (V - 1) B)
        size = len(cosines)
        guide = cosines.detach() if self.guide == "self" else upcast(require(self, teacher=teacher))
        same_row = torch.eye(size, dtype=torch.bool, device=cosines.device).repeat(1, len(views) - 1)
        masked = torch.zeros_like(same_row)
        known = guide.shape[1]  # candidates that the guide has read
        masked[:, :known] = guide > guide.diagonal()[:, None] + self.margin
        masked = (masked & ~same_row) | false_negatives(views, sentence_ids if self.mask_repeats else None)
        others = ~same_row
        if sentence_ids is not None:
            others = others & (sentence_ids[1 : len(views)].flatten() != EMPTY)
        self.observed = {"masked": (masked & others).sum() / others.sum().clamp(min=1)}
        logits = cosines.masked_fill(masked, -torch.inf) / self.temperature
        return F.cross_entropy(logits, torch.arange(size, device=logits.device))
