"""Ranks: numbers of dimensions that sentence vectors use."""

from __future__ import annotations

import numpy as np

from sts_lightning.papers.alignment import unit_rows


def singular_values(vectors: np.ndarray, normalize: bool = True) -> np.ndarray:
    """Compute the singular values of a matrix of vectors, largest first, in float64: (N, D) -> (min(N, D),).

    They are the roots of the eigenvalues of the smaller Gram matrix. That is many times faster than a
    singular value decomposition, and exact to about 1e-8 of the largest value.

    Args:
        vectors: Matrix with a vector in each row.
        normalize: Whether to scale the rows to unit length first.
    """
    rows = np.asarray(vectors, dtype=np.float64)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(f"expected vectors of shape (N, D), got {rows.shape}.")
    if normalize:
        rows = unit_rows(rows)
    gram = rows.T @ rows if len(rows) > rows.shape[1] else rows @ rows.T
    eigenvalues = np.linalg.eigvalsh(gram)[::-1]
    values: np.ndarray = np.sqrt(np.clip(eigenvalues, 0.0, None))  # rounding makes zeros slightly negative
    return values


def energy_rank(values: np.ndarray, fraction: float = 0.99, power: int = 2) -> int:
    r"""Count the fewest directions that hold a fraction of the energy (rank-reduction paper, Sec. 2).

    .. math:: \min \Bigl\{k : \sum_{i \le k} \sigma_i^p \ge \eta \sum_i \sigma_i^p \Bigr\}

    The paper gives neither eta nor p. Squares and 0.99 are the common reading.

    Args:
        values: Singular values, largest first.
        fraction: eta, in (0, 1].
        power: p, 1 or 2.

    Returns:
        Between 1 and the number of values; 0 if all of them are zero.
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction must lie in (0, 1], got {fraction}.")
    if power not in (1, 2):
        raise ValueError(f"power must be 1 or 2, got {power}.")
    energy = np.cumsum(values**power)
    if energy[-1] == 0:
        return 0
    # A relative 1e-12 less, so that rounding of the sums adds no direction; fraction 1 stays within the list.
    return min(int(np.searchsorted(energy, fraction * energy[-1] * (1 - 1e-12))) + 1, len(values))


def effective_rank(values: np.ndarray, power: int = 1) -> float:
    r"""Compute the exponential of the entropy of the normalised spectrum.

    .. math:: \exp\Bigl(-\sum_i p_i \log p_i\Bigr), \quad p_i = \sigma_i^p / \sum_j \sigma_j^p

    With p = 1 it is the effective rank of Roy & Vetterli (2007); with p = 2, on rows of unit length, it is
    the exponential of the von Neumann entropy (rank-reduction paper, Eq. 2).

    Args:
        values: Singular values.
        power: p, 1 or 2.

    Returns:
        Between 1 and the number of values; 0 if all of them are zero.
    """
    if power not in (1, 2):
        raise ValueError(f"power must be 1 or 2, got {power}.")
    weights = values**power
    if weights.sum() == 0:
        return 0.0
    fractions = weights[weights > 0] / weights.sum()
    return float(np.exp(-(fractions * np.log(fractions)).sum()))
