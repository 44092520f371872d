"""Distillation of a teacher's similarities of all sentences of a batch."""

from __future__ import annotations

from typing import Literal

from torch import Tensor
from torch.nn import functional as F

from sts_lightning.losses.base import Loss, Needs, check_positive, cosine_matrix, one_of, require

TEMPERATURE = 0.05
"""Usual temperature of student and teacher."""

Comparison = Literal["kl", "mse"]
"""Comparison of similarities: of the distributions over each row, or number by number."""


class SimilarityDistillationLoss(Loss):
    r"""Difference of the student's and the teacher's similarities of a batch (relational distillation).

    .. math:: L_{\text{kl}} = \frac1B \sum_i
        \mathrm{KL}\bigl(\sigma(t_i / \tau_t) \,\|\, \sigma(s_i / \tau)\bigr),
        \quad L_{\text{mse}} = \frac{1}{B^2} \sum_{ij} (s_{ij} - t_{ij})^2

    with :math:`s_{ij} = \cos(u_i, v_j)`, t the teacher's similarities, and :math:`\sigma` the softmax over j.
    The first is the loss of SEED (Fang et al. 2021, arXiv 2101.04731) on a batch instead of a queue; the
    second compares the matrices themselves, in the manner of similarity-preserving distillation (Tung and
    Mori 2019), which scales each row to unit length first. Vectors of student and teacher are never compared,
    so their sizes may differ. Labels are ignored.

    Use it with ``auxiliary=teacher`` to train a small encoder on plain sentences or pairs. The listnet form
    of `RankCSELoss` is the first plus a constant, beside a contrastive loss; `ScoreDistillationLoss` compares
    only the pairs of the data.

    Args:
        comparison: Form of the loss.
        temperature: tau, positive; read by kl alone.
        teacher_temperature: tau_t, positive; read by kl alone.

    Example:
        >>> loss = SimilarityDistillationLoss()
        >>> value = loss(torch.randn(2, 8, 16), teacher=torch.rand(8, 8))
    """

    needs = Needs(views=(2,), labels=("none", "score", "class"), required_inputs=("teacher",))

    def __init__(
        self,
        comparison: Comparison = "kl",
        temperature: float = TEMPERATURE,
        teacher_temperature: float = TEMPERATURE,
    ) -> None:
        super().__init__()
        one_of(Comparison, comparison=comparison)
        check_positive(temperature=temperature, teacher_temperature=teacher_temperature)
        self.comparison: Comparison = comparison
        self.temperature = temperature
        self.teacher_temperature = teacher_temperature

    def forward(self, views: Tensor, labels: Tensor | None = None, teacher: Tensor | None = None) -> Tensor:
        """Compute the loss of views (2, B, D); labels are ignored. See `Loss.forward`.

        Args:
            views: The two views of each example.
            labels: Ignored.
            teacher: The teacher's similarities of first views to second views, (B, B).

        Raises:
            ValueError: The teacher's similarities are absent.
        """
        teacher = require(self, teacher=teacher)
        student = cosine_matrix(views[0], views[1])
        teacher = teacher.to(student.dtype)
        if self.comparison == "mse":
            return F.mse_loss(student, teacher)
        target = (teacher / self.teacher_temperature).log_softmax(dim=1)
        prediction = (student / self.temperature).log_softmax(dim=1)
        return F.kl_div(prediction, target, reduction="batchmean", log_target=True)
