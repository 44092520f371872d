"""In-batch negatives for scored pairs, a part of AnglE's objective."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from sts_lightning.losses.base import (
    TOP_SCORE,
    Loss,
    Needs,
    check,
    check_positive,
    cosine_matrix,
    one_of,
    require,
)

EqualSentences = Literal["negatives", "positives"]
"""Relation of two sentences with the same text."""


class IBNLoss(Loss):
    r"""InfoNCE among all 2B sentences of a batch of scored pairs (AnglE, Sec. 3.2.2).

    .. math:: L = -\frac{1}{2B} \sum_{i \in P} \log
        \frac{e^{s \cos(z_i, z_{i'})}}{\sum_{j \ne i} e^{s \cos(z_i, z_j)}}

    where P are the sentences of the positive pairs and i' is the other sentence of i's pair. The mean is over
    all 2B sentences; those of negative pairs contribute 0, as in `AnglE's code
    <https://github.com/SeanLee97/AnglE/blob/5155458cfa6f7fbc7a8a19a66960cd86eadfd534/angle_emb/loss.py#L96-L144>`_.

    With ``equal_sentences=positives`` the sum over i has a further term for every two sentences with the same
    text, in negative pairs too, as in `AnglE's code of 2023
    <https://github.com/SeanLee97/AnglE/blob/f0efcb75c668d41510f9f70fc9db44c9966e1d16/angle_emb/angle.py#L320-L328>`_.
    With ``negatives`` they are negatives of each other, although their cosine is 1 but for dropout.

    Use it when scored pairs also serve as contrastive data, usually as a term of ``loss=mix``. Unlike
    `InfoNCELoss` it reads scores, looks for the partner in both directions, and takes the sentences of both
    columns as negatives.

    Args:
        scale: s, positive; the inverse of a temperature.
        positive_from: Lowest score of a positive pair.
        equal_sentences: Whether sentences with the same text are positives or negatives of each other.

    Example:
        >>> loss = IBNLoss()
        >>> value = loss(torch.randn(2, 8, 16), 5 * torch.rand(8))
    """

    needs = Needs(views=(2,), labels=("score",))

    def __init__(
        self, scale: float = 20.0, positive_from: float = 4.0, equal_sentences: EqualSentences = "negatives"
    ) -> None:
        super().__init__()
        check_positive(scale=scale)
        check(0 < positive_from <= TOP_SCORE, f"lie in (0, {TOP_SCORE:g}]", positive_from=positive_from)
        one_of(EqualSentences, equal_sentences=equal_sentences)
        self.scale = scale
        self.positive_from = positive_from
        self.equal_sentences: EqualSentences = equal_sentences
        if equal_sentences == "positives":
            self.needs = replace(self.needs, required_inputs=("sentence_ids",))

    def forward(
        self, views: Tensor, labels: Tensor | None = None, sentence_ids: Tensor | None = None
    ) -> Tensor:
        """Compute the loss of views (2, B, D) and scores (B,); see `Loss.forward`.

        Args:
            views: Embeddings of the two sentences of each pair.
            labels: Scores.
            sentence_ids: Number of each sentence, (2, B), equal for equal texts.

        Raises:
            ValueError: Equal sentences are positives, but ``sentence_ids`` are absent.
        """
        sentences = views.flatten(0, 1)
        logits = self.scale * cosine_matrix(sentences, sentences)
        diagonal = torch.eye(len(logits), dtype=torch.bool, device=logits.device)
        partners = diagonal.roll(views.shape[1], dims=1)
        rows = logits.masked_fill(diagonal, -torch.inf).log_softmax(dim=1)
        positives = require(self, labels=labels) >= self.positive_from
        targets = (partners & positives.repeat(2)[:, None]).to(rows.dtype)
        if self.equal_sentences == "positives":
            numbers = require(self, sentence_ids=sentence_ids).flatten()
            targets = targets + ((numbers[:, None] == numbers) & ~diagonal)
        return -(rows.masked_fill(diagonal, 0) * targets).sum(dim=1).mean()  # -inf * 0 would be NaN
