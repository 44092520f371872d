"""The best score that a scorer with few distinct values could reach."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

CANDIDATES = 500
"""Number of evenly spaced places at which a scorer of three or more levels may switch; as many at ties."""


@dataclass(frozen=True)
class Ceiling:
    """Best scorer with a number of distinct values.

    Attributes:
        spearman: Correlation times 100.
        sizes: Number of pairs with each value, the lowest value first.
    """

    spearman: float
    sizes: tuple[int, ...]


def ceiling(gold: np.ndarray, levels: int = 2) -> Ceiling:
    r"""Compute the highest Spearman correlation with gold scores of a scorer with K distinct values.

    Spearman's correlation is Pearson's of mid-ranks, which is what scipy, SentEval and everyone computes. The
    best scorer follows the order of the gold scores and is free in where it switches; pairs of equal gold
    score may fall on both sides. Without gold ties and with equal parts it reaches :math:`\sqrt{1 - 1/K^2}`
    in the limit: 0.8660 for two values. Exact for two values; for more, it switches at one of `CANDIDATES`
    evenly spaced places, or between ties, which costs less than 0.01.

    Args:
        gold: Scores, (N,).
        levels: K, at least 2.

    Raises:
        ValueError: There are fewer pairs than values, or more values than `CANDIDATES` allow, a score is not
            finite, or all are equal.
    """
    if levels > CANDIDATES + 1:
        raise ValueError(f"a scorer can have at most {CANDIDATES + 1} values here, got {levels}.")
    ranks, scale = _centred_ranks(gold, levels)
    size = len(ranks)
    if levels == 2:
        places = np.arange(1, size)
    else:
        even = np.linspace(1, size - 1, min(size - 1, CANDIDATES)).round().astype(int)
        places = np.union1d(even, _ends_of_ties(ranks))
    edges = np.concatenate([[0], places, [size]])
    sums = np.concatenate([[0.0], np.cumsum(ranks)])[edges]
    if levels == 2:
        above, below = size - places, places
        # The mid-ranks of a binary score are N/2 apart, whatever its class sizes.
        correlations = -sums[1:-1] / (np.sqrt(above * below / size) * scale)
        best = int(correlations.argmax())
        return Ceiling(100 * float(correlations[best]), (int(below[best]), int(above[best])))
    return _best_partition(edges, sums, scale, levels)


def _centred_ranks(gold: np.ndarray, levels: int) -> tuple[np.ndarray, float]:
    gold = np.asarray(gold, dtype=np.float64)
    if levels < 2 or len(gold) < levels:
        raise ValueError(f"a scorer of {levels} values needs at least two values and as many pairs.")
    if not np.isfinite(gold).all():
        raise ValueError("a gold score is NaN or infinite.")
    if np.ptp(gold) == 0:
        raise ValueError("all gold scores are equal; nothing correlates with them.")
    ranks = np.sort(stats.rankdata(gold))
    ranks -= ranks.mean()
    return ranks, float(np.linalg.norm(ranks))


def _ends_of_ties(ranks: np.ndarray) -> np.ndarray:
    """Return the places between values, (at most `CANDIDATES`,): those beside the most ties."""
    sizes = np.unique(ranks, return_counts=True)[1]
    beside = np.maximum(sizes[:-1], sizes[1:])
    most: np.ndarray = np.argsort(-beside, kind="stable")[:CANDIDATES]
    ends: np.ndarray = np.cumsum(sizes)[most]
    return ends


def _best_partition(edges: np.ndarray, sums: np.ndarray, scale: float, levels: int) -> Ceiling:
    """Maximise A / sqrt(B) over partitions into intervals.

    A is the sum over intervals of the centred mid-rank times the gold ranks in it, B of the squared mid-rank
    times its size. A maximum also maximises A - mu B at mu = A / (2 B), which dynamic programming solves; mu
    is iterated from equal parts.
    """
    total = edges[-1]
    middle = (edges[:, None] + edges[None, :] - total) / 2  # mid-ranks of the interval row to column
    count = edges[None, :] - edges[:, None]
    gain = middle * (sums[None, :] - sums[:, None])
    spread = count * middle**2
    cuts = np.searchsorted(edges, np.linspace(0, total, levels + 1).round())
    best = Ceiling(-np.inf, ())
    while True:
        a, b = (float(table[cuts[:-1], cuts[1:]].sum()) for table in (gain, spread))
        value = 100 * a / (np.sqrt(b) * scale)
        if value <= best.spearman + 1e-10:
            return best
        best = Ceiling(value, tuple(int(size) for size in np.diff(edges[cuts])))
        worth = np.where(count > 0, gain - a / (2 * b) * spread, -np.inf)
        reached, came_from = worth[0], []
        for _ in range(levels - 1):
            options = reached[:, None] + worth
            came_from.append(options.argmax(axis=0))
            reached = options.max(axis=0)
        cuts = np.array([len(edges) - 1])
        for table in reversed(came_from):
            cuts = np.concatenate([[table[cuts[0]]], cuts])
        cuts = np.concatenate([[0], cuts])


def papers_ceiling(gold: np.ndarray) -> Ceiling:
    r"""Compute the papers' bound on a binary scorer, :math:`1 - 6 \sum d^2 / (N (N^2 - 1))`.

    Pcc-tuning, Sec. 2.3.

    The formula holds without ties only, and a binary score is nothing but ties: it gives 7/8 for two equal
    halves in the limit, above the correlation that is reported.

    Args:
        gold: Scores, (N,).

    Raises:
        ValueError: There are fewer than two pairs, or all scores are equal.
    """
    _centred_ranks(gold, 2)
    ranks = np.sort(stats.rankdata(gold))
    size = len(ranks)
    below = np.arange(1, size)
    total, squares = np.cumsum(ranks), np.cumsum(ranks**2)
    low, high = (below + 1) / 2, (below + size + 1) / 2  # mid-ranks of the two values
    distance = squares[:-1] - 2 * low * total[:-1] + below * low**2
    distance += squares[-1] - squares[:-1] - 2 * high * (total[-1] - total[:-1]) + (size - below) * high**2
    values = 1 - 6 * distance / (size * (size**2 - 1))
    best = int(values.argmax())
    return Ceiling(100 * float(values[best]), (int(below[best]), int(size - below[best])))
