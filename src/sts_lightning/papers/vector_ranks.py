"""Ranks of matrices of vectors: numbers of dimensions that sentence vectors use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from sts_lightning.data.readers.sts_sets import STSTask
from sts_lightning.evaluation.encoding import Embedded
from sts_lightning.evaluation.statistics import unit_rows

FRACTION, POWER = 0.99, 2
"""Fraction of the energy, and power of the singular values, of the ranks; see `energy_rank`."""


class TaskRanks(TypedDict):
    """Energy ranks of a task's vectors; ``score`` is that of both sentences' vectors as they are."""

    score: float
    normalized: float
    first: float
    first_normalized: float
    sentences: int


class RankResult(TypedDict):
    """Ranks of a list of tasks; ``average`` is the plain mean of their scores."""

    fraction: float
    power: int
    average: float
    tasks: dict[str, TaskRanks]


def rank_tasks(tasks: Sequence[STSTask], vectors: Embedded) -> RankResult:
    """Compute the energy rank of the distinct sentences of each task (rank-reduction paper, Table 8).

    The paper reports the mean over the seven test sets. It does not state the fraction of the energy, the
    power of the singular values, or the rows of the matrix; its Sec. 2.2.1 has vectors as they are, not of
    unit length. All four readings of the rows are reported: vectors as they are or of unit length, of both
    sentences of a pair or of the first.

    Args:
        tasks: At least one task.
        vectors: Vectors of all their sentences.
    """
    results: dict[str, TaskRanks] = {}
    for task in tasks:
        first, second = (
            [text for table in task.subsets.values() for text in table[column]]
            for column in ("sentence1", "sentence2")
        )
        both, alone = (vectors[list(dict.fromkeys(texts))] for texts in (first + second, first))
        results[task.name] = {
            "score": _rank(both, normalize=False),
            "normalized": _rank(both, normalize=True),
            "first": _rank(alone, normalize=False),
            "first_normalized": _rank(alone, normalize=True),
            "sentences": len(both),
        }
    average = float(np.mean([result["score"] for result in results.values()]))
    return {"fraction": FRACTION, "power": POWER, "average": average, "tasks": results}


def _rank(vectors: np.ndarray, normalize: bool) -> float:
    return float(energy_rank(singular_values(vectors, normalize=normalize), FRACTION, POWER))


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
