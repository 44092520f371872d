"""Sentence-BERT's regression of the cosine."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from sts_lightning.losses.base import TOP_SCORE, Loss, Needs, cosine_rows, require


class CosineMSELoss(Loss):
    r"""Mean squared difference of cosine and score (Sentence-BERT, Sec. 3, "regression objective").

    .. math:: L = \frac1B \sum_i \Bigl(\cos(u_i, v_i) - \frac{y_i}{5}\Bigr)^2

    with y in [0, 5], so that a score of 0 asks for orthogonal vectors.

    Use it when a cosine should equal a given value, or as the simplest baseline on scored pairs.
    `PearsonLoss` asks for a linear relation of cosine and score instead of these very values; `MSELoss`
    regresses the score with a head instead of the cosine.

    Example:
        >>> loss = CosineMSELoss()
        >>> value = loss(torch.randn(2, 8, 16), 5 * torch.rand(8))
    """

    needs = Needs(views=(2,), labels=("score",), min_batch_for_gradient=1)

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """Compute the loss of views (2, B, D) and scores (B,); see `Loss.forward`."""
        cosines = cosine_rows(views[0], views[1])
        return F.mse_loss(cosines, require(self, labels=labels).to(cosines.dtype) / TOP_SCORE)
