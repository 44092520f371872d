"""Global orthogonal regularization: sentences that do not match become nearly orthogonal."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from sts_lightning.losses.base import check_not_negative
from sts_lightning.regularizers.base import Regularizer


class GlobalOrthogonal(Regularizer):
    r"""Coefficient times the deviation of non-matching similarities from those of random vectors (GOR).

    .. math:: \alpha \Bigl(M_1^2 + \max\bigl(0,\, M_2 - \tfrac1D\bigr)\Bigr), \quad
        M_1 = \frac{1}{B (B - 1)} \sum_{i \neq j} x_{ij}, \quad
        M_2 = \frac{1}{B (B - 1)} \sum_{i \neq j} x_{ij}^2

    with :math:`x_{ij}` the cosine of the first view of row i and the second view of row j (Zhang et al. 2017,
    "Learning spread-out local feature descriptors", Eq. 4 to 6). Directions drawn uniformly from the sphere
    have mean cosine 0 and mean squared cosine 1/D; the term draws the batch towards these. It is 0 on a batch
    of one row.

    Use it when embeddings crowd in a cone, or will be quantised. It can be added to any loss, also on scored
    pairs, where the sentences of other rows are unrelated. `RankReduction` acts in the opposite direction.

    Args:
        coefficient: alpha, not negative.

    Raises:
        ValueError: The coefficient is out of range.

    Example:
        >>> regularizer = GlobalOrthogonal(coefficient=1.0)
        >>> value = regularizer(torch.randn(2, 8, 16))
    """

    least_views = 2

    def __init__(self, coefficient: float = 1.0) -> None:
        super().__init__()
        check_not_negative(coefficient=coefficient)
        self.coefficient = coefficient

    def forward(self, views: Tensor) -> Tensor:
        """Compute the term of embeddings (V, B, D), V at least 2, at least in float32."""
        vectors = views if views.dtype == torch.float64 else views.float()
        size, dimension = vectors.shape[1:]
        if size == 1:  # no cosines; this 0 has a gradient, and a NaN stays a NaN
            return 0 * vectors.sum()
        first, second = F.normalize(vectors[0], dim=-1), F.normalize(vectors[1], dim=-1)
        # All but the diagonal: between two of its values lie ``size`` others. A boolean index takes the same,
        # but waits for a GPU to count them.
        cosines = (first @ second.T).flatten()[1:].view(size - 1, size + 1)[:, :-1]
        mean, square = cosines.mean(), cosines.square().mean()
        return self.coefficient * (mean.square() + F.relu(square - 1 / dimension))
