"""A weighted sum of losses."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from sts_lightning.losses.base import LabelKind, Loss


class MixLoss(Loss):
    r"""Several losses on the same batch: L = sum of weight times loss.

    ``observed`` has the value of each term, and what the terms themselves observe.

    Args:
        terms: The losses by name.
        weights: A weight for each name, not negative.
    """

    views: tuple[int, ...] = ()
    labels: tuple[LabelKind, ...] = ()

    def __init__(
        self, terms: Mapping[str, Loss] | None = None, weights: Mapping[str, float] | None = None
    ) -> None:
        super().__init__()
        terms, weights = terms or {}, weights or {}
        if not terms:
            raise ValueError("terms is empty; a mix needs at least one loss.")
        if set(terms) != set(weights):
            raise ValueError(
                f"weights needs a weight for each of terms: {', '.join(sorted(terms))}; "
                f"it has {', '.join(sorted(weights)) or 'none'}."
            )
        wrong = {name: weight for name, weight in weights.items() if not 0 <= weight < math.inf}
        if wrong or not any(weights.values()):
            raise ValueError(
                f"weights must be finite, not negative and not all 0, got {wrong or dict(weights)}."
            )
        self.terms = nn.ModuleDict(terms)
        self.weights = dict(weights)
        losses = list(terms.values())
        self.views = tuple(v for v in losses[0].views if all(v in other.views for other in losses))
        self.labels = tuple(k for k in losses[0].labels if all(k in other.labels for other in losses))
        if not self.views or not self.labels:
            raise ValueError(
                "terms cannot read the same batches: "
                + "; ".join(f"{name} takes {term.needs()}" for name, term in terms.items())
                + "."
            )

    def check_dimension(self, dimension: int) -> None:
        """Check the size of the embeddings for all terms."""
        for _, term in self._items():
            term.check_dimension(dimension)

    def make_head(self, dimension: int, top_label: float) -> None:
        """Create the heads of all terms."""
        for _, term in self._items():
            term.make_head(dimension, top_label)

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """See `Loss.forward`."""
        values = {name: term(views, labels) for name, term in self._items()}
        self.observed = {name: value.detach() for name, value in values.items()}
        for _, term in self._items():
            self.observed |= term.observed
        return torch.stack([self.weights[name] * value for name, value in values.items()]).sum()

    def _items(self) -> list[tuple[str, Loss]]:
        return [(name, term) for name, term in self.terms.items() if isinstance(term, Loss)]
