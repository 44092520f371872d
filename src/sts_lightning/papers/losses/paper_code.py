"""Losses as the code of their papers computes them, where that differs from the papers' equations."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from sts_lightning.losses.base import cosine_matrix, cosine_rows, require, upcast
from sts_lightning.losses.pearson import PearsonLoss, pearson_correlation
from sts_lightning.losses.regression import (
    L1Loss,
    MSELoss,
    SiameseRegressionLoss,
    SmoothK2Loss,
    TranslatedReLULoss,
)
from sts_lightning.papers.losses.mixcse import MixCSELoss, next_row
from sts_lightning.papers.losses.rankcse import RankCSELoss, in_order

TINY = 1e-7
"""Constant in the logarithms of `PaperCodeRankCSELoss`."""


class PaperCodePearsonLoss(PearsonLoss):
    """1 - r (B - 1) / B, with r the correlation of `PearsonLoss`.

    Pcc-tuning's code divides a mean over B by `unbiased variances
    <https://github.com/ZBWpro/Pcc-tuning/blob/71768f850d0a760c0a5422b930c10c8d50958824/code/tune.py#L103-L106>`_.
    On a constant batch it gives NaN; this class does not.
    """

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """Compute the loss of views (2, B, D) and scores (B,); see `Loss.forward`."""
        cosines = cosine_rows(views[0], views[1])
        r = pearson_correlation(cosines, require(self, labels=labels).to(cosines.dtype))
        return 1 - r * (len(cosines) - 1) / len(cosines)


class PaperCodeRegression(SiameseRegressionLoss):
    """Regression on floored labels, in which a clamped prediction has no gradient.

    STS-Regression's code `floors fractional scores
    <https://github.com/ZBWpro/STS-Regression/blob/02bed715c24d14a74ecbf7dc5b5a028d7470e6e7/code/train-bert-roberta.py#L121>`_
    (4.8 becomes 4), and a `clamped prediction
    <https://github.com/ZBWpro/STS-Regression/blob/02bed715c24d14a74ecbf7dc5b5a028d7470e6e7/code/train-bert-roberta.py#L118-L119>`_
    has no gradient there, even if its label is elsewhere. The same lines clamp at 0 only, with any penalty:
    for the whole of that code set ``clamp="left"`` as well.
    """

    def error(self, prediction: Tensor, labels: Tensor) -> Tensor:
        """Compute the distances of clamped predictions from the nodes of floored labels."""
        return super().error(self.clamped(prediction), labels.floor())


class PaperCodeL1Loss(PaperCodeRegression, L1Loss):
    """`L1Loss` as a `PaperCodeRegression`."""


class PaperCodeMSELoss(PaperCodeRegression, MSELoss):
    """`MSELoss` as a `PaperCodeRegression`."""


class PaperCodeSmoothK2Loss(PaperCodeRegression, SmoothK2Loss):
    """`SmoothK2Loss` as a `PaperCodeRegression`."""


class PaperCodeTranslatedReLULoss(PaperCodeRegression, TranslatedReLULoss):
    """`TranslatedReLULoss` as a `PaperCodeRegression`."""


class PaperCodeMixCSELoss(MixCSELoss):
    """MixCSE with a mirrored block and a constant 1 in the denominator, without masks of equal texts.

    MixCSE's code mixes vectors that are `not normalised
    <https://github.com/BDBC-KG-NLP/MixCSE_AAAI2022/blob/884145e24a5258c044fedb658df9999f012df875/mixcse/models_mix.py#L230>`_,
    adds a `mirrored block
    <https://github.com/BDBC-KG-NLP/MixCSE_AAAI2022/blob/884145e24a5258c044fedb658df9999f012df875/mixcse/models_mix.py#L246-L266>`_
    of mixed anchors against the positives that the paper does not mention, and `multiplies the left-out
    logits by 0
    <https://github.com/BDBC-KG-NLP/MixCSE_AAAI2022/blob/884145e24a5258c044fedb658df9999f012df875/mixcse/models_mix.py#L233-L236>`_,
    which leaves a constant 1 in the denominator.
    """

    needs = replace(MixCSELoss.needs, optional_inputs=())

    def forward(
        self, views: Tensor, labels: Tensor | None = None, sentence_ids: Tensor | None = None
    ) -> Tensor:
        """Compute the loss of views (2, B, D) alone; see `MixCSELoss.forward`."""
        first, second = upcast(views)
        following = next_row(len(first), views.device)
        blocks = [
            cosine_matrix(first, second),
            cosine_matrix(first, self.mixed(second)).masked_fill(following.T, 0.0),
            cosine_matrix(self.mixed(first), second).masked_fill(following, 0.0),
        ]
        target = torch.arange(len(first), device=views.device)
        return F.cross_entropy(torch.cat(blocks, dim=1) / self.temperature, target)


class PaperCodeRankCSELoss(RankCSELoss):
    """RankCSE with consistency and ListMLE of a public re-implementation, without masks of equal texts.

    The authors' code is not public. In the `re-implementation
    <https://github.com/perceptiveshawty/RankCSE/blob/17c5226be5962803f893b80f63e409eea20f27a3/rankcse/models.py#L48-L109>`_
    ListMLE is the sum over ranks, not the mean, which keeps gamma independent of the batch, and 1e-7 is added
    to each tail sum, relative to the list's largest score. The logarithm of the mixture in JS is clamped from
    below at 1e-7, so nothing of the mixture remains, and the term is the mean negative entropy of P and Q,
    whose probabilities are clamped at 1e-7 too. Its ListNet is that of ``teacher_temperature=0.05
    positive_in_lists=false``.
    """

    needs = replace(RankCSELoss.needs, optional_inputs=("teacher",))

    def divergence(self, first: Tensor, second: Tensor) -> Tensor:
        r"""Compute the consistency of corresponding rows: (B, N), (B, N) -> (B,).

        .. math:: \frac12 \sum_{p \in \{P, Q\}} \sum_j p_j (\log p_j - 10^{-7}), \quad p_j \ge 10^{-7}
        """
        parts = [scores.softmax(dim=1).clamp(min=TINY) for scores in (first, second)]
        first, second = ((part * (part.log() - TINY)).sum(dim=1) for part in parts)
        return (first + second) / 2

    def list_mle(self, scores: Tensor, reference: Tensor) -> Tensor:
        """Compute ListMLE summed over ranks; see `RankCSELoss.list_mle`."""
        ranked = in_order(scores, reference)
        ranked = ranked - ranked.amax(dim=1, keepdim=True)
        tails = ranked.flip(1).logcumsumexp(dim=1).flip(1).exp()  # cumsum has no deterministic form on CUDA
        return ((tails + TINY).log() - ranked).sum(dim=1).mean()
