"""Alignment and uniformity of sentence vectors; lower is better for both."""

from __future__ import annotations

import numpy as np
import torch

from sts_lightning.evaluation.statistics import unit_rows
from sts_lightning.losses.contrastive import DecoupledLoss

TEMPERATURE = 0.05
"""tau of the terms of `DecoupledLoss`."""


def alignment(first: np.ndarray, second: np.ndarray) -> float:
    """Mean squared distance of positive pairs on the unit sphere, in [0, 4] (Wang & Isola 2020, Eq. 4).

    Row i of (N, D) ``second`` is the positive of row i of ``first``.
    """
    return float(np.square(_unit(first) - _unit(second)).sum(axis=1).mean())


def uniformity(vectors: np.ndarray) -> float:
    """Log of the mean Gaussian potential of all pairs of vectors, in [-8, 0] (Wang & Isola 2020, Eq. 5).

    Args:
        vectors: (N, D), at least two.
    """
    unit = _unit(vectors)
    cosines = (unit @ unit.T)[~np.eye(len(unit), dtype=bool)]
    return float(np.log(np.exp(-4 * (1 - cosines)).mean()))


def contrastive_alignment(first: np.ndarray, second: np.ndarray) -> float:
    """Compute the alignment term of `DecoupledLoss`, -E[cos(h, h+) / tau]."""
    return _term("alignment", first, second)


def contrastive_uniformity(first: np.ndarray, second: np.ndarray) -> float:
    """Compute the uniformity term of `DecoupledLoss`, E[log sum over others of exp(cos / tau)].

    It grows with the number of vectors, so compare values of the same set only.

    Args:
        first: (N, D), at least two.
        second: Vectors to which the cosines are computed, (N, D): the same ones, or their second view, as in
            the rank-reduction paper's Eq. 5. Row i of it is left out for row i of ``first``.
    """
    return _term("uniformity", first, second)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return unit_rows(np.asarray(vectors, dtype=np.float64))


def _term(name: str, first: np.ndarray, second: np.ndarray) -> float:
    views = torch.from_numpy(np.stack([first, second])).double()
    return float(DecoupledLoss(TEMPERATURE).metrics(views)[name])
