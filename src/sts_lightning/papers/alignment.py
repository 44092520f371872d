"""Alignment and uniformity of sentence vectors."""

from __future__ import annotations

import numpy as np

from sts_lightning.evaluation.statistics import unit_rows


def alignment(first: np.ndarray, second: np.ndarray, alpha: float = 2.0) -> float:
    """Mean distance of positive pairs on the unit sphere, to the power alpha (Wang & Isola 2020, Eq. 4).

    Lower is better; with alpha 2 it lies in [0, 4]. Row i of (N, D) ``second`` is the positive of row i of
    ``first``.
    """
    distances = np.linalg.norm(_unit(first) - _unit(second), axis=1)
    return float((distances**alpha).mean())


def uniformity(vectors: np.ndarray, t: float = 2.0) -> float:
    """Log of the mean Gaussian potential of all pairs of vectors (Wang & Isola 2020, Eq. 5).

    Lower is better; it lies in [-4t, 0].

    Args:
        vectors: (N, D), at least two.
        t: Inverse width of the Gaussian.
    """
    cosines = _off_diagonal(vectors)
    return float(np.log(np.exp(-2 * t * (1 - cosines)).mean()))


def contrastive_alignment(first: np.ndarray, second: np.ndarray, temperature: float = 0.05) -> float:
    """Compute the alignment term of `DecoupledLoss`, -E[cos(h, h+) / tau]; lower is better."""
    return float(-(_unit(first) * _unit(second)).sum(axis=1).mean() / temperature)


def contrastive_uniformity(
    vectors: np.ndarray, temperature: float = 0.05, others: np.ndarray | None = None
) -> float:
    """Compute the uniformity term of `DecoupledLoss`, E[log sum over others of exp(cos / tau)].

    Lower is better. It grows with the number of vectors, so compare values of the same set only.

    Args:
        vectors: (N, D), at least two.
        temperature: tau.
        others: Second view of the vectors, (N, D), to which the cosines are computed, as in the
            rank-reduction paper's Eq. 5; the same view by default. A vector's own second view is left out.
    """
    logits = _off_diagonal(vectors, others) / temperature
    peak = logits.max(axis=1, keepdims=True)
    return float((peak[:, 0] + np.log(np.exp(logits - peak).sum(axis=1))).mean())


def _off_diagonal(vectors: np.ndarray, others: np.ndarray | None = None) -> np.ndarray:
    """Compute the cosines of each row with the other rows, (N, N - 1), or with those of the second view."""
    unit = _unit(vectors)
    size = len(unit)
    if size < 2:
        raise ValueError("uniformity needs at least two vectors.")
    cosines = unit @ (unit if others is None else _unit(others)).T
    off: np.ndarray = cosines[~np.eye(size, dtype=bool)].reshape(size, size - 1)
    return off


def _unit(vectors: np.ndarray) -> np.ndarray:
    return unit_rows(np.asarray(vectors, dtype=np.float64))
