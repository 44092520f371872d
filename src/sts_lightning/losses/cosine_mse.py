"""Regression of the cosine on the score of a pair, or on a teacher's similarity of it."""

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


class ScoreDistillationLoss(Loss):
    r"""Mean squared difference of the cosine and the teacher's similarity of a pair.

    .. math:: L = \frac1B \sum_i \bigl(\cos(u_i, v_i) - t_i\bigr)^2

    It is `CosineMSELoss` with the teacher's similarity in place of a score. Labels are ignored, so unlabelled
    pairs do as well.

    Use it with ``auxiliary=teacher`` when pairs have no scores, or in ``loss=mix`` beside a loss that reads
    the scores. `SimilarityDistillationLoss` compares every two sentences of a batch, and learns more from the
    same sentences where the teacher is good at unrelated pairs too.

    Example:
        >>> loss = ScoreDistillationLoss()
        >>> value = loss(torch.randn(2, 8, 16), teacher=torch.rand(8, 8))
    """

    needs = Needs(
        views=(2,), labels=("none", "score", "class"), required_inputs=("teacher",), min_batch_for_gradient=1
    )

    def forward(self, views: Tensor, labels: Tensor | None = None, teacher: Tensor | None = None) -> Tensor:
        """Compute the loss of views (2, B, D); labels are ignored. See `Loss.forward`.

        Args:
            views: The sentences of each pair.
            labels: Ignored.
            teacher: The teacher's similarities of first to second sentences, (B, B), of which the diagonal is
                read.

        Raises:
            ValueError: The teacher's similarities are absent.
        """
        cosines = cosine_rows(views[0], views[1])
        return F.mse_loss(cosines, require(self, teacher=teacher).diagonal().to(cosines.dtype))
