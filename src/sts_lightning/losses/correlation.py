"""Correlation of two lists as a differentiable function."""

from __future__ import annotations

import torch
from torch import Tensor

RESOLUTION = 1e-6
"""Standard deviation below which float32 cosines differ by rounding alone."""


def correlation(x: Tensor, y: Tensor) -> Tensor:
    """Pearson's correlation: (B,), (B,) -> scalar in [-1, 1].

    Where the standard deviation of either list is below 1e-6 the correlation is undefined: it counts as
    0 and has no gradient. A NaN in either list gives NaN.
    """
    x, y = x - x.mean(), y - y.mean()
    variance_x, variance_y = x.square().mean(), y.square().mean()
    # Tested before the root, whose gradient is infinite at zero; in this form NaN counts as defined.
    undefined = (variance_x <= RESOLUTION**2) | (variance_y <= RESOLUTION**2)
    root = torch.where(undefined, 1.0, variance_x * variance_y).sqrt()
    return torch.where(undefined, 0.0, (x * y).mean() / root)
