"""Contrastive losses: anchors against the positives and the hard negatives of a batch."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sts_lightning.core.choices import EMPTY
from sts_lightning.losses.base import (
    TOP_SCORE,
    Loss,
    Needs,
    check,
    check_not_negative,
    check_positive,
    cosine_matrix,
    cosine_rows,
    one_of,
    require,
    upcast,
)

Guide = Literal["self", "teacher"]
"""Source of the similarities that reveal false negatives: the model in training, or a teacher."""


def false_negatives(views: Tensor, sentence_ids: Tensor | None, among: slice = slice(1, None)) -> Tensor:
    """Find the candidates that are no negatives: their text is that of the anchor or of a positive of it.

    Args:
        views: Anchors, positives[, hard negatives ...], (V, B, D).
        sentence_ids: Numbers of the sentences, (V, B), equal for equal texts, which may be followed by K rows
            with the numbers of other positives of each anchor, (V + K, B); None finds nothing. Places
            that are `EMPTY` are found for every anchor.
        among: Views of the candidates.

    Returns:
        A mask (B, C) of anchors by candidates, in the order of ``views[among].flatten(0, 1)``. It never
        includes the positive of an anchor or the anchor itself, but may include its hard negative.
    """
    count, size = len(views[among]), views.shape[1]
    if sentence_ids is None:
        return torch.zeros(size, count * size, dtype=torch.bool, device=views.device)
    candidates = sentence_ids[: len(views)][among].flatten()
    equal = (candidates == sentence_ids[0, :, None]) | (candidates == sentence_ids[1, :, None])
    equal |= candidates == EMPTY
    for further in sentence_ids[len(views) :]:  # few, since the rows of an anchor meet in few batches
        equal |= candidates == further[:, None]
    return equal & ~torch.eye(size, count * size, dtype=torch.bool, device=views.device)


def cross_entropy_of_positives(logits: Tensor, left_out: Tensor) -> Tensor:
    """Compute the mean cross-entropy of the diagonal among the candidates that are not left out, (B, C)."""
    target = torch.arange(len(logits), device=logits.device)
    return F.cross_entropy(logits.masked_fill(left_out, -torch.inf), target)


class ContrastiveLoss(Loss):
    """Loss of anchors and candidates, which are the positives of all rows, then all hard negatives.

    Candidates with the text of the anchor or of a positive of it are left out, see `false_negatives`.
    """

    needs = Needs(views=(2, 3), more_views=True, labels=("none",), optional_inputs=("sentence_ids",))
    by_view = False  # a product for each view, or one for all: their rounding differs, and stays as it was

    def cosines(self, views: Tensor) -> Tensor:
        """Compute the cosines of anchors and candidates: (V, B, D) -> (B, (V - 1) B)."""
        blocks = views[1:] if self.by_view else [views[1:].flatten(0, 1)]
        return torch.cat([cosine_matrix(views[0], block) for block in blocks], dim=1)


class NegativesLoss(ContrastiveLoss):
    """Mean over rows of a loss that compares the positive with the negatives; without negatives it is 0."""

    needs = replace(ContrastiveLoss.needs, min_batch=2)

    def forward(
        self, views: Tensor, labels: Tensor | None = None, *, sentence_ids: Tensor | None = None
    ) -> Tensor:
        """Compute the loss of views (V, B, D), V at least 2; labels are ignored. See `Loss.forward`.

        Args:
            views: Anchors, positives[, hard negatives ...].
            labels: Ignored.
            sentence_ids: Numbers of the sentences, see `false_negatives`; None leaves out nothing.
        """
        cosines = self.cosines(views)
        own = torch.eye(*cosines.shape, dtype=torch.bool, device=cosines.device)
        left_out = own | false_negatives(views, sentence_ids)
        empty = left_out.all(dim=1)
        # A sum over nothing has a NaN gradient, so an empty row keeps its candidates and is dropped after.
        return self.rows(cosines, left_out & ~empty[:, None]).masked_fill(empty, 0.0).mean()

    @abstractmethod
    def rows(self, cosines: Tensor, left_out: Tensor) -> Tensor:
        """Compute the loss of each row, (B,), from cosines and what is no negative, both (B, C)."""


class InfoNCELoss(ContrastiveLoss):
    r"""Cross-entropy of the positive among all positives and negatives (SimCSE, Eq. 1 and 5).

    .. math:: L = -\frac{1}{B} \sum_i \log \frac{e^{\cos(z_i, z_i^+) / \tau}}
        {\sum_j e^{\cos(z_i, z_j^+) / \tau} + \sum_j e^{\cos(z_i, z_j^-) / \tau + w \delta_{ij}}
        + \sum_n e^{\cos(z_i, q_n) / \tau}}

    in one direction, from anchors to positives. With two views there are no hard negatives and the second
    sum is absent; with V > 3 it is over all V - 2 hard negatives of each row. The third is over further
    negatives q, such as those of a momentum queue. ``positive_negatives`` adds the terms cos(z_i^+, z_j^-)
    to the denominator of row i (CoT-BERT, Eq. 6, and `its code
    <https://github.com/ZBWpro/CoT-BERT/blob/3aa7bb44e3836c67a35a16ca8feee4bf29d8a900/models.py#L296-L298>`_).

    ``symmetric`` adds the terms cos(z_i^+, z_j), also of j = i, and ``same_side`` adds cos(z_i, z_j) and,
    with z_j^+ and z_j^-, cos(z_i^+, z_j^+), each of j other than i. With both it is the two-sided loss of
    `GTE <https://arxiv.org/abs/2308.03281>`_ (Li et al. 2023, Sec. 3.3).

    A sentence of another row with the text of z_i, of z_i^+ or of another positive that the training data
    have for z_i is left out of the denominator of row i, and so is such a hard negative of row i itself
    (``data.mask_repeats``): where many rows share few answers, or few questions, texts that belong together
    would be pushed apart. ``symmetric`` leaves out each z_j of which z_i^+ is a positive, and ``same_side``
    two anchors, or two positives, of rows of which one's positive is one of the other's anchor too. The
    further negatives q are not compared.

    Use it when there are positives but no scores: similar pairs, sentences encoded twice, or NLI triplets.
    `DecoupledLoss` leaves the positive out of the denominator, `MixCSELoss` adds harder negatives,
    `HardnessLoss` weights hard negatives, `GISTLoss` drops false ones, `EnergyLoss` has a margin to the
    hardest one, `SigmoidLoss` judges each pair by itself, and `IBNLoss` is the form for scored pairs.

    Args:
        temperature: tau, positive.
        hard_negative_weight: w, added to the logit of the hard negative of the same row.
        positive_negatives: Whether the denominator has the similarities of positives to hard negatives too.
        symmetric: Whether the anchors of other rows are negatives of a positive.
        same_side: Whether anchors are negatives of each other, and positives and hard negatives of positives.

    Example:
        >>> loss = InfoNCELoss()
        >>> value = loss(torch.randn(3, 8, 16))
    """

    needs = replace(ContrastiveLoss.needs, optional_inputs=("negatives", "sentence_ids"))

    def __init__(
        self,
        temperature: float = 0.05,
        hard_negative_weight: float = 0.0,
        positive_negatives: bool = False,
        symmetric: bool = False,
        same_side: bool = False,
    ) -> None:
        super().__init__()
        check_positive(temperature=temperature)
        check(math.isfinite(hard_negative_weight), "be finite", hard_negative_weight=hard_negative_weight)
        self.temperature = temperature
        self.hard_negative_weight = hard_negative_weight
        self.positive_negatives = positive_negatives
        self.symmetric = symmetric
        self.same_side = same_side

    def forward(
        self,
        views: Tensor,
        labels: Tensor | None = None,
        *,
        sentence_ids: Tensor | None = None,
        negatives: Tensor | None = None,
    ) -> Tensor:
        """Compute the loss; see `NegativesLoss.forward`.

        Args:
            views: Anchors, positives[, hard negatives ...].
            labels: Ignored.
            sentence_ids: Numbers of the sentences.
            negatives: Further negatives of every anchor, (N, D); may be empty.
        """
        size = views.shape[1]
        repeated = false_negatives(views, sentence_ids)
        anchors = false_negatives(views, sentence_ids, slice(0, 1))
        paired = repeated[:, :size]  # anchors with the positives of other rows that are theirs too
        own = torch.eye(size, dtype=torch.bool, device=views.device)
        logits = [cosine_matrix(views[0], views[1]) / self.temperature]  # (B, B)
        left_out = [repeated]
        weight = self.hard_negative_weight * own
        logits += [cosine_matrix(views[0], hard) / self.temperature + weight for hard in views[2:]]
        if self.positive_negatives:
            logits += [cosine_matrix(views[1], hard) / self.temperature for hard in views[2:]]
            left_out += [repeated[:, size:]]
        if self.symmetric:
            logits += [cosine_matrix(views[1], views[0]) / self.temperature]
            left_out += [anchors | paired.T]
        if self.same_side:
            logits += [cosine_matrix(views[0], views[0]) / self.temperature]
            logits += [cosine_matrix(views[1], views[1:].flatten(0, 1)) / self.temperature]
            positives = repeated | own.repeat(1, len(views) - 1)
            positives[:, :size] |= paired.T
            left_out += [anchors | paired | paired.T | own, positives]
        if negatives is not None:
            logits += [cosine_matrix(views[0], negatives) / self.temperature]
            left_out += [own.new_zeros(size, len(negatives))]
        return cross_entropy_of_positives(torch.cat(logits, dim=1), torch.cat(left_out, dim=1))


class DecoupledLoss(NegativesLoss):
    r"""InfoNCE without the positive in the denominator (Yeh et al. 2022, "Decoupled contrastive learning").

    .. math:: L = \underbrace{-\frac1B \sum_i \frac{\cos(z_i, z_i^+)}{\tau}}_{\text{alignment}}
        + w\,\underbrace{\frac1B \sum_i \log \sum_{j \neq i} e^{\cos(z_i, z_j^+) / \tau}}_{\text{uniformity}}

    The two terms are those that the rank-reduction paper follows through training (its Sec. 3);
    `metrics` has both. With more than two views all hard negatives join the sum of the second term.
    Copies of the positive or the anchor do not, and a row without any other candidate has no second term.

    Use it when batches are small, where the positive in InfoNCE's denominator weakens the gradient, or to
    weight alignment and uniformity separately. With w = 1 it differs from `InfoNCELoss` in the
    denominator alone.

    Args:
        temperature: tau, positive.
        uniformity_weight: w, not negative; 1 is the published loss.

    Example:
        >>> loss = DecoupledLoss()
        >>> value = loss(torch.randn(2, 8, 16))
    """

    by_view = True

    def __init__(self, temperature: float = 0.05, uniformity_weight: float = 1.0) -> None:
        super().__init__()
        check_positive(temperature=temperature)
        check_not_negative(uniformity_weight=uniformity_weight)
        self.temperature = temperature
        self.uniformity_weight = uniformity_weight

    def forward(
        self, views: Tensor, labels: Tensor | None = None, *, sentence_ids: Tensor | None = None
    ) -> Tensor:
        """Compute the weighted sum of the terms; see `NegativesLoss.forward`."""
        terms = self.metrics(views, labels, sentence_ids=sentence_ids)
        return terms["alignment"] + self.uniformity_weight * terms["uniformity"]

    def metrics(self, views: Tensor, labels: Tensor | None = None, **inputs: Any) -> dict[str, Tensor]:
        """Return both terms."""
        alignment = -cosine_rows(views[0], views[1]).mean() / self.temperature
        return {"alignment": alignment, "uniformity": super().forward(views, labels, **inputs)}

    def rows(self, cosines: Tensor, left_out: Tensor) -> Tensor:
        """Compute the logarithm of the second term's sum."""
        return (cosines / self.temperature).masked_fill(left_out, -torch.inf).logsumexp(dim=1)


class HardnessLoss(NegativesLoss):
    r"""InfoNCE with negatives weighted by their similarity (Robinson et al. 2021, arXiv 2010.04592).

    .. math:: L = -\frac1B \sum_i \log \frac{e^{p_i}}{e^{p_i} + Q\,G_i}, \quad
        G_i = \max\Bigl(e^{-1/\tau},\; \frac{1}{1 - \pi}
        \Bigl(\sum_j w_{ij} e^{n_{ij}} - \pi e^{p_i}\Bigr)\Bigr), \quad
        w_{ij} = \frac{e^{\beta n_{ij}}}{\sum_k e^{\beta n_{ik}}}

    with :math:`p_i = \cos(z_i, z_i^+) / \tau` and n the same of the Q negatives of an anchor: the positives
    of the other rows and, with more than two views, all hard negatives, but for copies of the positive or
    the anchor; the loss of a row without negatives is 0. The prior pi is the assumed
    fraction of false negatives, whose share is subtracted (Chuang et al. 2020, "Debiased contrastive
    learning"). With beta = 0 and pi = 0 it is `InfoNCELoss`. The weights w have a gradient, as in `the
    authors' code
    <https://github.com/joshr17/HCL/blob/7b4647fac271c78a2a9d619fe3f2929ecfaf33df/image/main.py#L30-L58>`_,
    which also takes positives as anchors, and other anchors as negatives.

    Use it when most negatives are easy. Where batches contain false negatives, raise ``prior`` with
    ``hardness``, or mask them with `GISTLoss`; `MixCSELoss` makes harder negatives instead of weighting.

    Args:
        temperature: tau, positive.
        hardness: beta, not negative; 0 weighs all negatives alike.
        prior: pi in [0, 1).

    Example:
        >>> loss = HardnessLoss()
        >>> value = loss(torch.randn(2, 8, 16))
    """

    def __init__(self, temperature: float = 0.05, hardness: float = 1.0, prior: float = 0.0) -> None:
        super().__init__()
        check_positive(temperature=temperature)
        check_not_negative(hardness=hardness)
        check(0 <= prior < 1, "lie in [0, 1)", prior=prior)
        self.temperature = temperature
        self.hardness = hardness
        self.prior = prior

    def rows(self, cosines: Tensor, left_out: Tensor) -> Tensor:
        """Compute the loss of each row in logarithms."""
        logits = cosines / self.temperature
        positives = logits.diagonal()
        negative = logits.masked_fill(left_out, -torch.inf)
        log_count = (~left_out).sum(dim=1).double().log().to(logits.dtype)
        weights = (self.hardness * logits).masked_fill(left_out, -torch.inf).logsumexp(dim=1)
        mean = ((1 + self.hardness) * negative).logsumexp(dim=1) - weights
        # In logarithms: exp(mean) - prior exp(positive) = exp(mean) (1 - prior exp(positive - mean)).
        # The last exponential is clamped, since from exp(89) on it is infinite in float32.
        share = self.prior * (positives - mean).clamp(max=80).exp()
        rest = mean + torch.log1p(-torch.where(share < 1, share, 0.0)) - math.log1p(-self.prior)
        least = torch.full_like(rest, -1 / self.temperature)
        hard = torch.where(share >= 1, least, torch.maximum(rest, least))
        return F.softplus(log_count + hard - positives)


class EnergyLoss(NegativesLoss):
    r"""Hinge that keeps the hardest negative a margin below the positive (PromCSE, Jiang et al. 2022, Eq. 8).

    .. math:: L = \frac1B \sum_i \max\Bigl(0,\; m + \max_{n \in N_i} \cos(z_i, n) - \cos(z_i, z_i^+)\Bigr)

    where N_i are the positives of the other rows and, with more than two views, all hard negatives, but for
    copies of the positive or the anchor. A row without negatives has loss 0.

    Use it when InfoNCE already separates most negatives: added to `InfoNCELoss` by ``loss=mix``, it acts
    only on rows whose hardest negative is too close. PromCSE adds it with weight 10
    (``experiment=promcse_sup``). The value is that of `PromCSE's code
    <https://github.com/YJiangcm/PromCSE/blob/4b319380fa13d018811dd0631bcbeee838c3218e/promcse/models.py#L247-L259>`_,
    which multiplies the temperature out of its cosines first.

    Args:
        margin: m, in cosines, not negative; PromCSE: 0.2.

    Example:
        >>> loss = EnergyLoss()
        >>> value = loss(torch.randn(3, 8, 16))
    """

    by_view = True

    def __init__(self, margin: float = 0.2) -> None:
        super().__init__()
        check_not_negative(margin=margin)
        self.margin = margin

    def rows(self, cosines: Tensor, left_out: Tensor) -> Tensor:
        """Compute the hinge of each row."""
        hardest = cosines.masked_fill(left_out, -torch.inf).amax(dim=1)
        return F.relu(self.margin + hardest - cosines.diagonal())


class GISTLoss(ContrastiveLoss):
    r"""InfoNCE with masked false negatives (GISTEmbed, Solatorio 2024; Qwen3 Embedding, Zhang et al. 2025).

    .. math:: L = -\frac{1}{B} \sum_i \log \frac{e^{\cos(z_i, z_i^+) / \tau}}
        {\sum_{n \in N_i} e^{\cos(z_i, n) / \tau}}, \quad
        n \notin N_i \iff g_{in} > g_{ii} + m

    where the candidates are all positives of the batch and, with V > 2 views, all hard negatives. A candidate
    is left out if its similarity g by the guide exceeds that of the positive by more than a margin m. The
    positive and the hard negative of the same row never are, since the data vouch for them. Copies of the
    positive have the similarity g_ii itself; they are recognised by their text.
    `metrics` has the masked fraction of the other candidates.

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

    Example:
        >>> loss = GISTLoss()
        >>> value = loss(torch.randn(3, 8, 16))
    """

    needs = replace(ContrastiveLoss.needs, optional_inputs=("teacher", "sentence_ids"))

    def __init__(self, temperature: float = 0.05, guide: Guide = "self", margin: float = 0.1) -> None:
        super().__init__()
        check_positive(temperature=temperature)
        one_of(Guide, guide=guide)
        check(-2 < margin < 2, "lie in (-2, 2)", margin=margin)
        self.temperature = temperature
        self.guide: Guide = guide
        self.margin = margin
        required = ("teacher",) if guide == "teacher" else ()
        self.needs = replace(self.needs, required_inputs=required, optional_inputs=("sentence_ids",))

    def forward(
        self,
        views: Tensor,
        labels: Tensor | None = None,
        *,
        sentence_ids: Tensor | None = None,
        teacher: Tensor | None = None,
    ) -> Tensor:
        """Compute the loss; see `NegativesLoss.forward`.

        Args:
            views: Anchors, positives[, hard negatives ...].
            labels: Ignored.
            sentence_ids: Numbers of the sentences.
            teacher: The teacher's similarities of anchors to positives, (B, B).

        Raises:
            ValueError: The guide is a teacher, but there is none.
        """
        cosines = self.cosines(views)
        masked = self._masked(cosines, teacher) | false_negatives(views, sentence_ids)
        return cross_entropy_of_positives(cosines / self.temperature, masked)

    def metrics(self, views: Tensor, labels: Tensor | None = None, **inputs: Any) -> dict[str, Tensor]:
        """Return the masked fraction of the candidates of other rows."""
        cosines, ids = self.cosines(views), inputs.get("sentence_ids")
        masked = self._masked(cosines, inputs.get("teacher")) | false_negatives(views, ids)
        others = ~_same_row(cosines)
        if ids is not None:
            others = others & (ids[1 : len(views)].flatten() != EMPTY)
        return {"masked": (masked & others).sum() / others.sum().clamp(min=1)}

    def _masked(self, cosines: Tensor, teacher: Tensor | None) -> Tensor:
        guide = cosines.detach() if self.guide == "self" else upcast(require(self, teacher=teacher))
        masked = torch.zeros_like(cosines, dtype=torch.bool)
        known = guide.shape[1]  # candidates that the guide has read
        masked[:, :known] = guide > guide.diagonal()[:, None] + self.margin
        return masked & ~_same_row(cosines)


def _same_row(cosines: Tensor) -> Tensor:
    size, count = cosines.shape
    return torch.eye(size, dtype=torch.bool, device=cosines.device).repeat(1, count // size)


class SigmoidLoss(ContrastiveLoss):
    r"""Binary classification of every two sentences as positive or negative (SigLIP, Zhai et al. 2023).

    .. math:: L = -\frac1B \sum_i \sum_j \log \sigma\bigl(z_{ij} (e^{t'} \cos(z_i, z_j^+) + b)\bigr), \quad
        z_{ij} = \begin{cases} 1 & i = j \\ -1 & i \neq j \end{cases}

    with :math:`\sigma` the logistic function. The logarithm t' of the scale and the bias b are learned
    together with the encoder. The bias starts low since a batch has many more negatives than positives. With
    more than two views all hard negatives are further negatives of every anchor, as in `InfoNCELoss`. Copies
    of the positive or the anchor have no term. `metrics` has scale and bias.

    Use it in place of `InfoNCELoss` when the number of negatives should matter little: each pair is judged by
    itself, without a softmax over the batch. ``optim.head_lr`` sets the learning rate of scale and bias,
    which move little at the rate of an encoder.

    Args:
        scale: exp(t') at the start, positive; the inverse of a temperature. SigLIP: 10.
        bias: b at the start, -log(B - 1) for a batch of B = 64, where one of B candidates is right.
            SigLIP: -10, for batches of 32,768.

    Example:
        >>> loss = SigmoidLoss()
        >>> value = loss(torch.randn(2, 8, 16))
    """

    def __init__(self, scale: float = 10.0, bias: float = -4.143) -> None:
        super().__init__()
        check_positive(scale=scale)
        check(math.isfinite(bias), "be finite", bias=bias)
        self.log_scale = nn.Parameter(torch.tensor([math.log(scale)]))
        self.bias = nn.Parameter(torch.tensor([float(bias)]))

    def forward(
        self, views: Tensor, labels: Tensor | None = None, *, sentence_ids: Tensor | None = None
    ) -> Tensor:
        """Compute the sum over candidates, and its mean over rows; see `NegativesLoss.forward`.

        `BiXSELoss` reads the labels, scores (B,).
        """
        cosines = self.cosines(views)
        scale, bias = self.log_scale.exp().to(cosines.dtype), self.bias.to(cosines.dtype)
        terms = self.terms(scale * cosines + bias, labels)
        return terms.masked_fill(false_negatives(views, sentence_ids), 0.0).sum() / len(cosines)

    def metrics(self, views: Tensor, labels: Tensor | None = None, **inputs: Any) -> dict[str, Tensor]:
        """Return scale and bias."""
        return {"scale": self.log_scale.detach().exp(), "bias": self.bias.detach().clone()}

    def terms(self, logits: Tensor, labels: Tensor | None) -> Tensor:
        """Compute the term of each anchor and candidate: (B, C) -> (B, C)."""
        signs = 2 * torch.eye(*logits.shape, device=logits.device, dtype=logits.dtype) - 1
        return -F.logsigmoid(signs * logits)


class BiXSELoss(SigmoidLoss):
    r"""Binary cross-entropy on graded scores, with in-batch negatives (BiXSE, Tsirigotis et al. 2025).

    .. math:: L = \frac1B \sum_i \sum_j \mathrm{BCE}\bigl(e^{t'} \cos(z_i, z_j^+) + b,\; p_{ij}\bigr), \quad
        p_{ij} = \begin{cases} y_i / 5 & i = j \\ 0 & i \neq j \end{cases}

    with y the score of a pair, read as a probability that its sentences mean the same, and BCE the
    cross-entropy of the logistic function of its first argument. The logarithm t' of the scale and the bias b
    are learned together with the encoder. Copies of the pair's sentences have no term.
    `metrics` has scale and bias.

    The authors published no code that this project knows of. Normalisation and initial values are those of
    `SigmoidLoss`, of which this is the form for scores: with scores of 5 alone they are equal.

    Use it on scored pairs when cosines should also be comparable across batches, as for retrieval.
    ``optim.head_lr`` sets the learning rate of scale and bias.

    Args:
        scale: exp(t') at the start, positive.
        bias: b at the start, see `SigmoidLoss`.

    Example:
        >>> loss = BiXSELoss()
        >>> value = loss(torch.randn(2, 8, 16), 5 * torch.rand(8))
    """

    needs = replace(
        SigmoidLoss.needs, views=(2,), more_views=False, labels=("score",), min_batch_for_gradient=1
    )

    def terms(self, logits: Tensor, labels: Tensor | None) -> Tensor:
        """Compute the cross-entropy of each two sentences and their score: (B, B) -> (B, B)."""
        targets = torch.diag(require(self, labels=labels).to(logits.dtype) / TOP_SCORE)
        return F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
