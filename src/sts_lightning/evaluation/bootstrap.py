"""Bootstrap intervals of scores and of paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

Predictions = Mapping[str, tuple[np.ndarray, np.ndarray]]
"""For each task, the cosines and the gold scores of its pairs, in the order of the data."""


@dataclass(frozen=True)
class Interval:
    """An estimate with the bounds of its percentile interval."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


def paired_difference(
    system: Sequence[Predictions],
    baseline: Sequence[Predictions],
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, Interval]:
    """How far a system is above a baseline, with intervals over test pairs.

    The pairs of each task are drawn anew with replacement, the same draw for all runs, and Spearman's
    correlation times 100 is averaged over the runs (seeds) of each side. The interval tells what other
    test pairs might have shown; how much other seeds would change is not in it.

    Args:
        system: Predictions of each run of the system.
        baseline: Those of the baseline, on the same pairs.
        resamples: Draws.
        level: Coverage of the intervals.
        seed: Of the draws.

    Returns:
        The difference of each task, and under ``average`` that of the mean over tasks.

    Raises:
        ValueError: The runs were not scored on the same pairs.
    """
    tasks = list(baseline[0])
    for run in (*system, *baseline):
        if list(run) != tasks or any(not np.array_equal(run[t][1], baseline[0][t][1]) for t in tasks):
            raise ValueError("the runs were not scored on the same test pairs.")
    rng = np.random.default_rng(seed)
    sides = (system, baseline)
    draws = {task: np.zeros(resamples + 1) for task in tasks}
    for task in tasks:
        gold = baseline[0][task][1]
        columns = [np.stack([run[task][0] for run in side]) for side in sides]  # (runs, pairs)
        for draw in range(resamples + 1):
            # Draw 0 is the sample itself.
            rows = rng.integers(len(gold), size=len(gold)) if draw else np.arange(len(gold))
            ours, theirs = (_mean_spearman(column[:, rows], gold[rows]) for column in columns)
            draws[task][draw] = 100 * (ours - theirs)
    draws["average"] = np.mean([draws[task] for task in tasks], axis=0)
    tails = [100 * (1 - level) / 2, 100 * (1 + level) / 2]
    return {
        name: Interval(float(values[0]), *map(float, np.percentile(values[1:], tails)))
        for name, values in draws.items()
    }


def score_intervals(
    system: Sequence[Predictions], resamples: int = 1000, level: float = 0.95, seed: int = 0
) -> dict[str, Interval]:
    """Spearman's correlation times 100, the mean over runs, with intervals over test pairs.

    Args:
        system: Predictions of each run, on the same pairs.
        resamples: Draws.
        level: Coverage of the intervals.
        seed: Of the draws.

    Returns:
        The score of each task, and under ``average`` the mean over tasks.
    """
    nothing = {task: (np.zeros_like(gold), gold) for task, (_, gold) in system[0].items()}
    return paired_difference(system, [nothing], resamples, level, seed)


def _mean_spearman(cosines: np.ndarray, gold: np.ndarray) -> float:
    """Mean over runs of Spearman's correlation: (runs, pairs), (pairs,) -> scalar."""
    ranks = stats.rankdata(cosines, axis=1)
    gold_ranks = stats.rankdata(gold)
    ranks -= ranks.mean(axis=1, keepdims=True)
    gold_ranks -= gold_ranks.mean()
    norms = np.linalg.norm(ranks, axis=1) * np.linalg.norm(gold_ranks)
    dots = ranks @ gold_ranks
    return float(np.divide(dots, norms, out=np.zeros_like(dots), where=norms > 0).mean())
