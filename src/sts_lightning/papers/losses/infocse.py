"""InfoCSE: InfoNCE with the loss of an auxiliary masked language model."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from sts_lightning.losses.base import Loss, Needs, check_not_negative, require, upcast
from sts_lightning.losses.contrastive import InfoNCELoss


class InfoCSELoss(Loss):
    r"""InfoNCE plus a weighted masked-language-model loss (InfoCSE, Wu et al. 2022, arXiv 2210.06432).

    .. math:: L = L_{\text{InfoNCE}} + w L_{\text{MLM}}

    The second term comes from an auxiliary network that predicts masked words from the sentence's vector
    (``auxiliary=masked_lm``, `MaskedLanguageModel`). `metrics` has both terms.

    Use it when training a BERT without labels: the second term keeps the content of a sentence in its vector,
    which another dropout mask alone does not require. Without this term it is `InfoNCELoss`.

    Args:
        temperature: tau of InfoNCE, positive.
        masked_lm_weight: w, not negative.

    Raises:
        ValueError: A value is out of range.

    Example:
        >>> loss = InfoCSELoss()
        >>> value = loss(torch.randn(2, 8, 16), masked_lm=torch.tensor(7.0))
    """

    needs = Needs(
        views=(2, 3),
        more_views=True,
        labels=("none",),
        optional_inputs=("sentence_ids",),
        required_inputs=("masked_lm",),
        counts_empty_places=True,  # the auxiliary network predicts words of every text
    )

    def __init__(self, temperature: float = 0.05, masked_lm_weight: float = 1e-5) -> None:
        super().__init__()
        check_not_negative(masked_lm_weight=masked_lm_weight)
        self.contrast = InfoNCELoss(temperature)
        self.masked_lm_weight = masked_lm_weight

    def forward(
        self,
        views: Tensor,
        labels: Tensor | None = None,
        masked_lm: Tensor | None = None,
        sentence_ids: Tensor | None = None,
    ) -> Tensor:
        """Compute the loss of views (V, B, D), V at least 2; labels are ignored. See `Loss.forward`.

        Args:
            views: Anchors, positives[, hard negatives ...].
            labels: Ignored.
            masked_lm: Loss of the auxiliary network, a scalar.
            sentence_ids: Numbers of the sentences, see `InfoNCELoss.forward`.

        Raises:
            ValueError: The masked language model's loss is absent.
        """
        masked_lm = require(self, masked_lm=masked_lm)
        contrast: Tensor = self.contrast(views, labels, sentence_ids=sentence_ids)
        return contrast + self.masked_lm_weight * upcast(masked_lm)

    def metrics(self, views: Tensor, labels: Tensor | None = None, **inputs: Any) -> dict[str, Tensor]:
        """Return both terms."""
        contrast = self.contrast(views, labels, sentence_ids=inputs.get("sentence_ids"))
        return {"infonce": contrast, "masked_lm": inputs["masked_lm"]}
