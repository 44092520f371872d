"""A weighted sum of losses."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from sts_lightning.losses.base import Loss, Needs

RESERVED = ("loss", "regularizer")
"""Names under which the whole loss and a regulariser are logged."""


def check_names(argument: str, names: Iterable[str]) -> None:
    """Reject names of losses that are taken: a ModuleDict has no module called like one of its methods."""
    taken = sorted(name for name in names if name in RESERVED or hasattr(nn.ModuleDict(), name))
    if taken:
        raise ValueError(f"{argument} must have other names than {', '.join(taken)}, which are reserved.")


class MixLoss(Loss):
    r"""Weighted sum of several losses on the same batch.

    .. math:: L = \sum_k w_k L_k

    Use it when an objective has several terms, as those of AnglE (``experiment=angle_llama``) and PromCSE
    (``experiment=promcse_sup``) have. The terms must accept the same views and labels.

    Args:
        terms: Losses by name.
        weights: Weights by name of the loss, finite, not negative, and not all 0.

    Raises:
        ValueError: There are no terms, the names differ, a weight is out of range, or no batch suits all
            terms.

    Example:
        >>> loss = MixLoss({"cosent": CoSENTLoss(), "ibn": IBNLoss()}, {"cosent": 1.0, "ibn": 0.5})
        >>> value = loss(torch.randn(2, 8, 16), 5 * torch.rand(8))
    """

    def __init__(
        self, terms: Mapping[str, Loss] | None = None, weights: Mapping[str, float] | None = None
    ) -> None:
        super().__init__()
        terms, weights = terms or {}, weights or {}
        if not terms:
            raise ValueError(
                "terms is empty, but a mix needs a loss or more, as in +loss@loss.terms.a=pearson."
            )
        if set(terms) != set(weights):
            raise ValueError(
                f"weights must have the names of terms: {', '.join(sorted(terms))}; "
                f"its names are {', '.join(sorted(weights)) or 'none'}."
            )
        wrong = {name: weight for name, weight in weights.items() if not 0 <= weight < math.inf}
        if wrong or not any(weights.values()):
            raise ValueError(
                f"weights must be finite, not negative and not all 0, got {wrong or dict(weights)}."
            )
        check_names("terms", terms)
        self.terms = nn.ModuleDict(terms)
        self.weights = dict(weights)
        # A term of weight 0 has no gradient anyway.
        compares = all(term.needs.different_labels for name, term in terms.items() if weights[name])
        self.needs = replace(Needs.both(term.needs for term in terms.values()), different_labels=compares)
        if not self.needs.views or not self.needs.labels:
            raise ValueError(
                "terms cannot read the same batches: "
                + "; ".join(f"{name} takes {term.needs}" for name, term in terms.items())
                + "."
            )

    def forward(self, views: Tensor, labels: Tensor | None = None, **further: Tensor) -> Tensor:
        """Compute the weighted sum of the terms; see `Loss.forward`.

        Args:
            views: Embeddings, (V, B, D).
            labels: Scores or classes, (B,), or None.
            **further: Arguments that terms take, each passed to the terms that take it.
        """
        values = self._values(views, labels, further)
        return torch.stack([self.weights[name] * value for name, value in values.items()]).sum()

    def metrics(self, views: Tensor, labels: Tensor | None = None, **inputs: Any) -> dict[str, Tensor]:
        """Return the value of each term, and the quantities of the terms.

        Those that occur in more than one term are preceded by its name.
        """
        found = self._values(views, labels, inputs)
        of_terms = {
            name: term.metrics(views, labels, **term.needs.select(inputs)) for name, term in self._items()
        }
        counts = Counter([*found, *(key for each in of_terms.values() for key in each)])
        for name, each in of_terms.items():
            found |= {key if counts[key] == 1 else f"{name}/{key}": value for key, value in each.items()}
        return found

    def _values(self, views: Tensor, labels: Tensor | None, further: Mapping[str, Any]) -> dict[str, Tensor]:
        return {name: term(views, labels, **term.needs.select(further)) for name, term in self._items()}

    def _items(self) -> list[tuple[str, Loss]]:
        # The test is for the type checker, to which the values of a ModuleDict are modules.
        return [(name, term) for name, term in self.terms.items() if isinstance(term, Loss)]
