"""Matryoshka representation learning around any loss without a head."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from sts_lightning.losses.base import Loss

EMBEDDINGS = ("negatives", "second")
"""Further arguments of a loss that are embeddings, and so are truncated like the views."""


class MatryoshkaLoss(Loss):
    r"""Weighted sum of a loss on the first values of the embeddings (Kusupati et al. 2022, arXiv 2205.13147).

    .. math:: L = \sum_{d \in M} c_d\, L_{\text{inner}}\bigl(z_{1:d}\bigr)

    so that the first d values of a vector are themselves an embedding, for every d in M. The inner loss
    may be any loss without a head, which has weights for all D values, ``loss=mix`` included; but not
    `VectorDistillationLoss`, which compares whole vectors.

    Use it when vectors will be stored or compared at several sizes. Include D in the sizes if the whole
    vector will be used.

    Args:
        inner: The loss.
        dimensions: M, different sizes, each at least 1 and at most D.
        weights: c, one for each size, finite, not negative and not all 0; null for 1 each.
        dimension: D, the size of an embedding, if it is known.

    Raises:
        ValueError: The loss is missing or has a head, or a size or weight is out of range.

    Example:
        >>> loss = MatryoshkaLoss(PearsonLoss(), [16, 8, 4])
        >>> value = loss(torch.randn(2, 8, 16), 5 * torch.rand(8))
    """

    def __init__(
        self,
        inner: Loss | None = None,
        dimensions: list[int] | None = None,
        weights: list[float] | None = None,
        dimension: int | None = None,
    ) -> None:
        super().__init__()
        if inner is None:
            raise ValueError(
                "inner is empty, but matryoshka needs the loss of each size: loss@loss.inner=NAME."
            )
        if any(isinstance(part, nn.Linear) for part in inner.modules()):
            raise ValueError(
                f"inner is {type(inner).__name__}, whose head has weights for the whole vector; choose a "
                "loss without a head."
            )
        sizes = list(dimensions or [])
        if not sizes or min(sizes) < 1 or len(set(sizes)) < len(sizes):
            raise ValueError(f"dimensions must be different sizes of at least 1, got {dimensions}.")
        self.dimensions = sizes
        if dimension is not None:  # before weights are loaded
            self._check_sizes(dimension)
        self.weights = [1.0] * len(sizes) if weights is None else list(weights)
        if len(self.weights) != len(sizes):
            raise ValueError(f"weights must be one for each of {len(sizes)} dimensions, got {self.weights}.")
        if not all(0 <= weight < math.inf for weight in self.weights) or not any(self.weights):
            raise ValueError(f"weights must be finite, not negative and not all 0, got {self.weights}.")
        self.inner = inner
        self.needs = inner.needs

    def forward(self, views: Tensor, labels: Tensor | None = None, **further: Tensor) -> Tensor:
        """Compute the weighted sum of the inner loss over sizes; see `Loss.forward`.

        Args:
            views: Embeddings, (V, B, D).
            labels: Scores or classes, (B,), or None.
            **further: Arguments that the inner loss takes.

        Raises:
            ValueError: A size is larger than D.
        """
        self._check_sizes(views.shape[-1])
        values = [
            weight * self.inner(views[..., :size], labels, **_first(size, further))
            for size, weight in zip(self.dimensions, self.weights, strict=True)
        ]
        return torch.stack(values).sum()

    def metrics(self, views: Tensor, labels: Tensor | None = None, **inputs: Any) -> dict[str, Tensor]:
        """Return the inner loss of each size, and its further quantities at the largest."""
        values = {
            f"first_{size}": self.inner(views[..., :size], labels, **_first(size, inputs))
            for size in self.dimensions
        }
        largest = max(self.dimensions)
        return values | self.inner.metrics(views[..., :largest], labels, **_first(largest, inputs))

    def _check_sizes(self, dimension: int) -> None:
        if max(self.dimensions) > dimension:
            raise ValueError(
                f"dimensions must be at most {dimension}, the size of a vector, got {self.dimensions}."
            )


def _first(size: int, further: Mapping[str, Any]) -> dict[str, Any]:
    """Truncate the arguments that are embeddings."""
    return {name: value[..., :size] if name in EMBEDDINGS else value for name, value in further.items()}
