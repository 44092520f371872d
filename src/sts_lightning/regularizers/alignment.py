"""Alignment: the two views of a row come closer."""

from __future__ import annotations

from torch import Tensor

from sts_lightning.losses.base import check_not_negative, check_positive, cosine_rows
from sts_lightning.regularizers.base import Regularizer


class Alignment(Regularizer):
    r"""Coefficient times the alignment loss of the first two views (rank-reduction paper, Eq. 4, Sec. 5.1).

    .. math:: -\frac{\gamma}{\tau} \frac1B \sum_i \cos(z_i, z_i^+)

    InfoNCE is this term with coefficient 1 plus a term of uniformity (`DecoupledLoss`), so that with the
    temperature of the loss its alignment counts 1 + gamma times. The paper reports that the gain for SimCSE
    is about one point smaller than that of `RankReduction`; it publishes no coefficient.

    Use it when positives should lie closer than a contrastive loss alone makes them; tune its coefficient on
    dev data.

    Args:
        coefficient: gamma, not negative.
        temperature: tau, positive.

    Raises:
        ValueError: An argument is out of range.

    Example:
        >>> regularizer = Alignment(coefficient=0.03)
        >>> value = regularizer(torch.randn(2, 8, 16))
    """

    least_views = 2

    def __init__(self, coefficient: float = 0.03, temperature: float = 0.05) -> None:
        super().__init__()
        check_not_negative(coefficient=coefficient)
        check_positive(temperature=temperature)
        self.coefficient = coefficient
        self.temperature = temperature

    def forward(self, views: Tensor) -> Tensor:
        """Compute the term of embeddings (V, B, D), V at least 2, at least in float32."""
        return -self.coefficient / self.temperature * cosine_rows(views[0], views[1]).mean()
