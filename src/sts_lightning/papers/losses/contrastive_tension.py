"""Contrastive tension between two encoders."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from sts_lightning.losses.base import Loss, Needs, check, require, upcast


class ContrastiveTensionLoss(Loss):
    r"""Logistic loss on dot products of two encoders' vectors (CT, Carlsson et al. 2021).

    .. math:: L = -\frac1B \sum_i \begin{cases} \log \sigma(f_1(s_i) \cdot f_2(s_i)) & i \in P \\
        \log \bigl(1 - \sigma(f_1(s_i) \cdot f_2(s_{n(i)}))\bigr) & i \notin P \end{cases}

    The first of every K rows is a positive pair, the same sentence for both encoders. The others are negative
    pairs of different sentences: n(i) is the next row that is not in P, and after the last row the first. A
    negative pair of two equal sentences has no term. The vectors are neither normalised
    nor scaled. `metrics` has the mean loss of the positive and of the negative pairs.

    Use it with ``auxiliary=second_encoder`` and one view (``data.views=1``): without labels, from
    a model whose vectors are already apart, such as Sentence-BERT (CT-SBERT), or from a pre-trained one.
    `InfoNCELoss` on two views reads every other sentence of the batch as a negative, with one encoder.

    Deviation from `the authors' code
    <https://github.com/FreddeFrallan/Contrastive-Tension/blob/5ee9b2d06c0957c77ebc9d204262dd5793fdff87/ContrastiveTension/Training.py#L26-L31>`_,
    which draws the second sentences of negative pairs separately: here both encoders embed the same B
    sentences.

    Args:
        group: K, at least 2; the paper's is 8 in batches of 16.

    Raises:
        ValueError: The group is too small.

    Example:
        >>> loss = ContrastiveTensionLoss()
        >>> value = loss(torch.randn(1, 16, 8), second=torch.randn(16, 8))
    """

    needs = Needs(
        views=(1,), labels=("none",), optional_inputs=("sentence_ids",), required_inputs=("second",)
    )

    def __init__(self, group: int = 8) -> None:
        super().__init__()
        check(group >= 2, "be at least 2, one positive and one negative", group=group)
        self.group = group

    def forward(
        self,
        views: Tensor,
        labels: Tensor | None = None,
        second: Tensor | None = None,
        sentence_ids: Tensor | None = None,
    ) -> Tensor:
        """Compute the loss of one view, (1, B, D); labels are ignored. See `Loss.forward`.

        Args:
            views: Vectors of the first encoder.
            labels: Ignored.
            second: Vectors of the second encoder, of the same sentences, (B, D).
            sentence_ids: Number of each sentence, (1, B), equal for equal texts; if absent, none is masked.

        Raises:
            ValueError: The second encoder's vectors are absent.
        """
        return self._losses(views, second, sentence_ids)[0].mean()

    def metrics(self, views: Tensor, labels: Tensor | None = None, **inputs: Any) -> dict[str, Tensor]:
        """Return the mean loss of the positive and, if there are any, of the negative pairs."""
        losses, positives, negatives = self._losses(views, inputs.get("second"), inputs.get("sentence_ids"))
        found = {"positive": losses[positives].mean()}
        return found | ({"negative": losses[negatives].mean()} if len(negatives) else {})

    def _losses(
        self, views: Tensor, second: Tensor | None, sentence_ids: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the loss of each pair, and number the positive and the negative ones."""
        second = require(self, second=second)
        pairs = contrast_pairs(len(second), self.group)
        rows = (pairs[0].nonzero()[:, 0], (~pairs[0]).nonzero()[:, 0])
        # All from the host, which then need not wait for a GPU.
        positive, partner, positives, negatives = (
            tensor.to(second.device, non_blocking=True) for tensor in (*pairs, *rows)
        )
        products = (upcast(views[0]) * upcast(second)[partner]).sum(dim=-1)
        losses = F.binary_cross_entropy_with_logits(products, positive.to(products.dtype), reduction="none")
        if sentence_ids is not None:
            losses = losses.masked_fill(~positive & (sentence_ids[0] == sentence_ids[0][partner]), 0.0)
        return losses, positives, negatives


def contrast_pairs(size: int, group: int) -> tuple[Tensor, Tensor]:
    """Pair the rows of a batch: the first of every group with itself, the others among themselves.

    Args:
        size: B, number of rows.
        group: K, number of rows of a group.

    Returns:
        Whether each row is a positive pair, (B,), and the row of its second sentence, (B,). A single negative
        row is paired with the first row.
    """
    rows = torch.arange(size)
    positive = rows % group == 0
    negatives = rows[~positive]
    partner = rows.clone()
    partner[negatives] = negatives.roll(-1) if len(negatives) > 1 else 0
    return positive, partner
