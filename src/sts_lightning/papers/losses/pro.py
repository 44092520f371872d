"""CoDiEmb's listwise loss, weighted by differences of scores."""

from __future__ import annotations

import torch
from torch import Tensor

from sts_lightning.losses.base import TOP_SCORE, Loss, Needs, check_positive, cosine_rows, require


class PROLoss(Loss):
    r"""Each pair against all pairs of a lower score, weighted by the distance (PRO as in CoDiEmb, 2025).

    .. math:: L = -\frac{1}{|K|} \sum_{i \in K} \log \frac{e^{w_i x_i / t}}
        {e^{w_i x_i / t} + \sum_{j:\, y_j < y_i} e^{(y_i - y_j) x_j / t}}, \quad w_i = \max_j (y_i - y_j)

    with x the cosine of a pair, y its score divided by 5, and K the pairs that are not of the lowest score.
    The equation is that of `the authors' code
    <https://github.com/TencentCloudADP/youtu-embedding/blob/9a0d6f342d16c4580f17884c403bfd4a73fa6fdf/training/CoDiEmb/train/loss.py#L234-L313>`_,
    whose examples have scores in [0, 1]; on another scale the weights would act as another temperature.
    Preference ranking optimization (PRO, Song et al. 2024) has it with another weight. The cosines are
    weighted by their distance, not their differences, so L depends on the cosines' zero as well: it is lower
    where all of them are higher. O(B^2) time and memory. A batch of equal scores has loss 0.

    Use it as a term of ``experiment=codiemb_sts``. `CoSENTLoss` compares differences of cosines.

    Args:
        temperature: t, positive. CoDiEmb: 0.05.

    Example:
        >>> loss = PROLoss()
        >>> value = loss(torch.randn(2, 8, 16), 5 * torch.rand(8))
    """

    needs = Needs(views=(2,), labels=("score",), different_labels=True)

    def __init__(self, temperature: float = 0.05) -> None:
        super().__init__()
        check_positive(temperature=temperature)
        self.temperature = temperature

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """Compute the loss of views (2, B, D) and scores (B,); see `Loss.forward`."""
        logits = cosine_rows(views[0], views[1]) / self.temperature
        scores = require(self, labels=labels).to(logits.dtype) / TOP_SCORE
        distances = scores[:, None] - scores[None, :]  # row i: how much lower each other score is
        own = logits * distances.max(dim=1).values
        lower = (distances * logits).masked_fill(distances <= 0, -torch.inf)
        losses = torch.cat([own[:, None], lower], dim=1).logsumexp(dim=1) - own
        compared = (distances > 0).any(dim=1)
        # 0 * logits propagates a NaN even where all scores are equal.
        return torch.where(compared, losses, 0 * logits).sum() / compared.sum().clamp(min=1)
