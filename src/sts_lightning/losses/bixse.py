"""BiXSE: graded scores as probabilities, with in-batch negatives."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from sts_lightning.losses.base import TOP_SCORE, Needs, cosine_matrix, false_negatives, require
from sts_lightning.losses.sigmoid import SigmoidLoss


class BiXSELoss(SigmoidLoss):
    r"""Binary cross-entropy on graded scores, with in-batch negatives (BiXSE, Tsirigotis et al. 2025).

    .. math:: L = \frac1B \sum_i \sum_j \mathrm{BCE}\bigl(e^{t'} \cos(z_i, z_j^+) + b,\; p_{ij}\bigr), \quad
        p_{ij} = \begin{cases} y_i / 5 & i = j \\ 0 & i \neq j \end{cases}

    with y the score of a pair, read as a probability that its sentences mean the same, and BCE the
    cross-entropy of the logistic function of its first argument. The logarithm t' of the scale and the bias b
    are learned together with the encoder. Copies of the pair's sentences have no term (``mask_repeats``).
    ``observed`` has scale and bias.

    The authors published no code that this project knows of. Normalisation and initial values are those of
    `SigmoidLoss`, of which this is the form for scores: with scores of 5 alone they are equal.

    Use it on scored pairs when cosines should also be comparable across batches, as for retrieval.
    ``optim.head_lr`` sets the learning rate of scale and bias.

    Args:
        scale: exp(t') at the start, positive.
        bias: b at the start, see `SigmoidLoss`.
        mask_repeats: Whether to leave out candidates with the text of either sentence of the pair.

    Example:
        >>> loss = BiXSELoss()
        >>> value = loss(torch.randn(2, 8, 16), 5 * torch.rand(8))
    """

    needs = Needs(views=(2,), labels=("score",), optional_inputs=("sentence_ids",), min_batch_for_gradient=1)

    def forward(
        self, views: Tensor, labels: Tensor | None = None, sentence_ids: Tensor | None = None
    ) -> Tensor:
        """Compute the loss of views (2, B, D) and scores (B,); see `Loss.forward`.

        Args:
            views: Embeddings of the two sentences of each pair.
            labels: Scores.
            sentence_ids: Number of each sentence, (2, B), equal for equal texts; None leaves out nothing.
        """
        cosines = cosine_matrix(views[0], views[1])
        logits = self.logits(cosines)
        targets = torch.diag(require(self, labels=labels).to(cosines.dtype) / TOP_SCORE)
        terms = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        repeated = false_negatives(views, sentence_ids if self.mask_repeats else None)
        return terms.masked_fill(repeated, 0.0).sum() / len(cosines)
