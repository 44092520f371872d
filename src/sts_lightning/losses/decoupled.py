"""The contrastive loss as alignment plus uniformity."""

from __future__ import annotations

import torch
from torch import Tensor

from sts_lightning.losses.base import (
    Loss,
    Needs,
    check_not_negative,
    check_positive,
    cosine_matrix,
    cosine_rows,
    false_negatives,
    require_negatives,
)


class DecoupledLoss(Loss):
    r"""InfoNCE without the positive in the denominator (Yeh et al. 2022, "Decoupled contrastive learning").

    .. math:: L = \underbrace{-\frac1B \sum_i \frac{\cos(z_i, z_i^+)}{\tau}}_{\text{alignment}}
        + w\,\underbrace{\frac1B \sum_i \log \sum_{j \neq i} e^{\cos(z_i, z_j^+) / \tau}}_{\text{uniformity}}

    The two terms are those that the rank-reduction paper follows through training (its Sec. 3);
    ``observed`` has both. With more than two views all hard negatives join the sum of the second term.
    Copies of the positive or the anchor do not (``mask_repeats``), and a row without any other candidate has
    no second term.

    Use it when batches are small, where the positive in InfoNCE's denominator weakens the gradient, or to
    weight alignment and uniformity separately. With w = 1 it differs from `InfoNCELoss` in the
    denominator alone.

    Args:
        temperature: tau, positive.
        uniformity_weight: w, not negative; 1 is the published loss.
        mask_repeats: Whether to leave out candidates with the text of the anchor or of a positive of it.

    Example:
        >>> loss = DecoupledLoss()
        >>> value = loss(torch.randn(2, 8, 16))
    """

    needs = Needs(
        views=(2, 3), more_views=True, labels=("none",), optional_inputs=("sentence_ids",), min_batch=2
    )

    def __init__(
        self, temperature: float = 0.05, uniformity_weight: float = 1.0, mask_repeats: bool = True
    ) -> None:
        super().__init__()
        check_positive(temperature=temperature)
        check_not_negative(uniformity_weight=uniformity_weight)
        self.temperature = temperature
        self.uniformity_weight = uniformity_weight
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
        alignment = -cosine_rows(views[0], views[1]).mean() / self.temperature
        logits = torch.cat([cosine_matrix(views[0], other) / self.temperature for other in views[1:]], dim=1)
        left_out = torch.eye(*logits.shape, dtype=torch.bool, device=views.device)
        left_out = left_out | false_negatives(views, sentence_ids if self.mask_repeats else None)
        empty = left_out.all(dim=1)
        # A sum over nothing would have a NaN gradient, so an empty row keeps its logits and is dropped after.
        logits = logits.masked_fill(left_out & ~empty[:, None], -torch.inf)
        uniformity = logits.logsumexp(dim=1).masked_fill(empty, 0.0).mean()
        self.observed = {"alignment": alignment.detach(), "uniformity": uniformity.detach()}
        return alignment + self.uniformity_weight * uniformity
