"""RankCSE: InfoNCE with consistent and distilled rankings."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from sts_lightning.losses.base import (
    Loss,
    Needs,
    check_not_negative,
    check_positive,
    cosine_matrix,
    false_negatives,
    one_of,
    require,
    upcast,
)

Distillation = Literal["listnet", "listmle"]
"""How the student learns the teacher's ranking."""

TEACHER_TEMPERATURE = 0.025
"""Usual temperature of the teacher's lists."""


class RankCSELoss(Loss):
    r"""InfoNCE with ranking consistency and ranking distillation (Liu et al. 2023, arXiv 2305.16726).

    .. math:: L = L_{\text{InfoNCE}} + \beta \frac1B \sum_i \mathrm{JS}(P_i \,\|\, Q_i)
        + \gamma L_{\text{rank}}

    where P_i and Q_i are the softmax of the similarities of sentence i to all sentences, from its first and
    from its second view: :math:`P_i = \sigma_j(\cos(z_i, z_j^+) / \tau)` and
    :math:`Q_i = \sigma_j(\cos(z_i^+, z_j) / \tau)`. The third term compares the student's list
    :math:`s_{ij} = \cos(z_i, z_j^+) / \tau_2` with the teacher's similarities t:

    .. math:: L_{\text{ListNet}} = -\frac1B \sum_i \sum_j \sigma_j(t_i / \tau_3) \log \sigma_j(s_i), \quad
        L_{\text{ListMLE}} = -\frac1{B^2} \sum_i \sum_k
        \log \frac{e^{s_{i \pi_i(k)}}}{\sum_{l \ge k} e^{s_{i \pi_i(l)}}}

    with :math:`\pi_i` the order of sentences by falling t_i. ``observed`` has the three terms.

    The authors' code is not public; `PaperCodeRankCSELoss` is a public re-implementation.

    Copies of a sentence are no negatives in InfoNCE (``mask_repeats``), and keep their places in the lists.

    Use it when there are no labels, but a better encoder: a run of this project, a model of the hub, or
    stored vectors (``auxiliary=teacher``). Without a teacher (gamma 0) it is `InfoNCELoss` on two views with
    the consistency term.

    Args:
        temperature: tau, of InfoNCE and of the consistency, positive.
        consistency_weight: beta, not negative.
        distillation: The form of the third term.
        distillation_weight: gamma, not negative; 0 for no teacher.
        student_temperature: tau_2, positive.
        teacher_temperature: tau_3, positive; read by ListNet alone. Published: half of tau_2.
        positive_in_lists: Whether the lists of the third term contain the positive.
        mask_repeats: Whether to leave out candidates with the text of the anchor or of a positive of it.

    Example:
        >>> loss = RankCSELoss()
        >>> value = loss(torch.randn(2, 8, 16), teacher=torch.rand(8, 8))
    """

    needs = Needs(views=(2,), labels=("none",), optional_inputs=("teacher", "sentence_ids"))

    def __init__(
        self,
        temperature: float = 0.05,
        consistency_weight: float = 1.0,
        distillation: Distillation = "listmle",
        distillation_weight: float = 1.0,
        student_temperature: float = 0.05,
        teacher_temperature: float = TEACHER_TEMPERATURE,
        positive_in_lists: bool = True,
        mask_repeats: bool = True,
    ) -> None:
        super().__init__()
        check_positive(temperature=temperature)
        check_positive(student_temperature=student_temperature, teacher_temperature=teacher_temperature)
        check_not_negative(consistency_weight=consistency_weight, distillation_weight=distillation_weight)
        one_of(Distillation, distillation=distillation)
        self.temperature = temperature
        self.consistency_weight = consistency_weight
        self.distillation: Distillation = distillation
        self.distillation_weight = distillation_weight
        self.student_temperature = student_temperature
        self.teacher_temperature = teacher_temperature
        self.positive_in_lists = positive_in_lists
        self.mask_repeats = mask_repeats
        self.needs = replace(
            self.needs,
            required_inputs=("teacher",) if distillation_weight else (),
            optional_inputs=tuple(name for name in self.needs.optional_inputs if name != "teacher"),
            min_batch=1 if positive_in_lists else 2,
        )

    def forward(
        self,
        views: Tensor,
        labels: Tensor | None = None,
        teacher: Tensor | None = None,
        sentence_ids: Tensor | None = None,
    ) -> Tensor:
        """Compute the loss of views (2, B, D); labels are ignored. See `Loss.forward`.

        Args:
            views: The two views of each sentence.
            labels: Ignored.
            teacher: The teacher's similarities of sentence i to sentence j, (B, B).
            sentence_ids: Numbers of the sentences, see `false_negatives`; None leaves out nothing.

        Raises:
            ValueError: The distillation lacks a teacher, or a list would be empty.
        """
        cosines = cosine_matrix(views[0], views[1])  # (B, B)
        target = torch.arange(len(cosines), device=cosines.device)
        repeated = false_negatives(views, sentence_ids if self.mask_repeats else None)
        contrast = F.cross_entropy((cosines / self.temperature).masked_fill(repeated, -torch.inf), target)
        consistency = self.divergence(cosines / self.temperature, cosines.T / self.temperature).mean()
        self.observed = {"infonce": contrast.detach(), "consistency": consistency.detach()}
        loss = contrast + self.consistency_weight * consistency
        if not self.distillation_weight:
            return loss
        student, teacher = cosines / self.student_temperature, upcast(require(self, teacher=teacher))
        if not self.positive_in_lists:
            if len(cosines) < 2:
                raise ValueError("RankCSELoss without positive_in_lists needs at least two rows; got one.")
            student, teacher = _without_diagonal(student), _without_diagonal(teacher)
        if self.distillation == "listnet":
            ranking = F.cross_entropy(student, (teacher / self.teacher_temperature).softmax(dim=1))
        else:
            ranking = self.list_mle(student, teacher)
        self.observed["distillation"] = ranking.detach()
        return loss + self.distillation_weight * ranking

    def divergence(self, first: Tensor, second: Tensor) -> Tensor:
        """Compute the Jensen-Shannon divergence of the softmax of corresponding rows: (B, N), (B, N) -> (B,).

        It lies in [0, log 2].
        """
        log_p, log_q = first.log_softmax(dim=1), second.log_softmax(dim=1)
        mixture = torch.logaddexp(log_p, log_q) - math.log(2)
        divergences = [(log.exp() * (log - mixture)).sum(dim=1) for log in (log_p, log_q)]
        return (divergences[0] + divergences[1]) / 2

    def list_mle(self, scores: Tensor, reference: Tensor) -> Tensor:
        """Compute ListMLE (Xia et al. 2008): -log of an order's Plackett-Luce probability, mean over ranks.

        Args:
            scores: Scores of the lists to be ranked, (B, N).
            reference: Scores whose falling order is the target, (B, N); ties keep the order of the columns.
        """
        ranked = in_order(scores, reference)
        tails = ranked.flip(1).logcumsumexp(dim=1).flip(1)
        return (tails - ranked).mean()


def in_order(scores: Tensor, reference: Tensor) -> Tensor:
    """Sort the scores of each row by falling reference; ties keep the order of the columns."""
    return scores.gather(1, reference.argsort(dim=1, descending=True, stable=True))


def _without_diagonal(square: Tensor) -> Tensor:
    """Drop the diagonal: (B, B) -> (B, B - 1)."""
    size = len(square)
    return square.flatten()[1:].view(size - 1, size + 1)[:, :-1].reshape(size, size - 1)
