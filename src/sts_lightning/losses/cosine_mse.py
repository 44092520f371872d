"""Sentence-BERT's regression of the cosine."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from sts_lightning.losses.base import TOP_SCORE, Loss, cosine_rows, require_labels


class CosineMSELoss(Loss):
    r"""Mean squared difference of cosine and score (Sentence-BERT, Sec. 3, "regression objective").

    .. math:: L = \frac1B \sum_i \Bigl(\cos(u_i, v_i) - \frac{y_i}{5}\Bigr)^2

    with y in [0, 5], so that a score of 0 asks for orthogonal vectors.
    """

    views = (2,)
    labels = ("score",)

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """Views (2, B, D) and scores (B,) to a scalar; see `Loss.forward`."""
        cosines = cosine_rows(views[0], views[1])
        return F.mse_loss(cosines, require_labels(self, labels).to(cosines.dtype) / TOP_SCORE)
