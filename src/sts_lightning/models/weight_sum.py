"""Weighted sums of the weights of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

Weights = Mapping[str, Tensor]
"""Tensors by name."""


def weighted_sum(parts: Sequence[Weights], factors: Sequence[float]) -> dict[str, Tensor]:
    r"""Compute :math:`\sum_k f_k \theta_k` in float64, tensor by tensor, in the dtypes of the first part.

    Args:
        parts: Weights of models, all with the same names.
        factors: f, one for each part.

    Returns:
        New tensors. Those without floating-point numbers, such as positions, are those of the first part.

    Raises:
        ValueError: Names, shapes, or tensors without floating-point numbers differ.
    """
    first = parts[0]
    for other in parts[1:]:
        names = first.keys() ^ other.keys()
        if names:
            raise ValueError(f"{min(names)} is not among the weights of all of them")
    result = {}
    for name, tensor in first.items():
        tensors = [part[name] for part in parts]
        if any(other.shape != tensor.shape for other in tensors):
            raise ValueError(f"{name} has another shape in each ({[tuple(t.shape) for t in tensors]})")
        if tensor.is_floating_point():
            terms = [factor * other.double() for factor, other in zip(factors, tensors, strict=True)]
            result[name] = torch.stack(terms).sum(dim=0).to(tensor.dtype)
        elif all(torch.equal(tensor, other) for other in tensors):
            result[name] = tensor.clone()
        else:
            raise ValueError(f"{name} differs, and has no mean since it holds {tensor.dtype}")
    return result
