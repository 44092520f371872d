"""Cosines of pairs, their correlation with gold scores, and bootstrap intervals of scores and differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypedDict

import numpy as np
from scipy import stats

from sts_lightning.core.errors import CheckpointError, TrainingError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.predictions import (
    DEV,
    SELECTS,
    OfTask,
    check_same_texts,
    comparable_predictions,
    constant,
)

Predictions = Mapping[str, OfTask]
"""What is stored of each task, in the order of the data."""


class Correlations(TypedDict):
    """Correlations times 100 and the number of pairs."""

    spearman: float
    pearson: float
    pairs: int


def correlate(cosines: np.ndarray, gold: np.ndarray) -> Correlations:
    """Spearman's (mid-ranks for ties) and Pearson's correlation times 100.

    Both are 0 where all cosines are equal, as a constant predictor orders nothing.
    """
    if np.ptp(cosines) == 0:
        return {"spearman": 0.0, "pearson": 0.0, "pairs": len(gold)}
    return {
        "spearman": 100 * float(stats.spearmanr(cosines, gold).statistic),
        "pearson": 100 * float(stats.pearsonr(cosines, gold).statistic),
        "pairs": len(gold),
    }


def require_finite(vectors: np.ndarray) -> np.ndarray:
    """Return vectors (N, D) unchanged if all are finite; a cosine would turn NaN and infinity into 0.

    Raises:
        TrainingError: A vector is NaN or infinite.
    """
    wrong = int((~np.isfinite(vectors).all(axis=1)).sum())
    if wrong:
        raise TrainingError(
            f"the vectors of {wrong:,} of {len(vectors):,} sentences are NaN or infinite: the weights of the "
            "model are broken, or its precision is too low; try precision=32-true."
        )
    return vectors


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Scale rows to length 1 in their own dtype, (N, D) -> (N, D); a zero row stays as it is."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: np.ndarray = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    return unit


def pair_cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Cosine of corresponding rows in float64, 0 where a vector is 0: (N, D), (N, D) -> (N,).

    It is rounded to 12 digits, so that pairs of identical sentences are tied at 1, not ranked by rounding.
    """
    first, second = first.astype(np.float64), second.astype(np.float64)
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    dots = np.einsum("nd,nd->n", first, second)
    cosines: np.ndarray = np.divide(dots, norms, out=np.zeros_like(dots), where=norms > 0)
    return cosines.round(12)


@dataclass(frozen=True)
class Interval:
    """An estimate with the bounds of its percentile interval, which covers 95 %."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


class Comparison(NamedTuple):
    """Scores of two systems and their difference (second minus first), by task and on average.

    Attributes:
        first: Scores of the first system.
        second: Scores of the second one.
        difference: Differences.
        score: Name of the score.
        units: Number of pairs, or queries, in words.
    """

    first: dict[str, Interval]
    second: dict[str, Interval]
    difference: dict[str, Interval]
    score: str
    units: str


def compare(first: Sequence[Path], second: Sequence[Path], resamples: int = 1000) -> Comparison:
    """Compare two systems on the same test pairs, or dev data where no run has a test report.

    Args:
        first: Run folders of one system, which differ in their seed.
        second: Run folders of the other system.
        resamples: Number of bootstrap resamples of the test pairs.

    Raises:
        CheckpointError: A run has no predictions, or they are on other pairs, or its scores are not
            correlations over all pairs of a test set.
    """
    folders = [[RunFolder(run) for run in runs] for runs in (first, second)]
    ours, theirs = ([comparable_predictions(run) for run in runs] for runs in folders)
    check_same_texts([*folders[0], *folders[1]])
    try:
        difference = paired_difference(theirs, ours, resamples)
    except ValueError as error:
        names = ", ".join(map(str, (*first, *second)))
        raise CheckpointError(f"{names}: {error}") from error
    ranked = [isinstance(found, dict) for found in ours[0].values()]
    sizes = sum(len(_units(found)) for found in ours[0].values())
    noun = "queries" if all(ranked) else "pairs and queries" if any(ranked) else "pairs"
    return Comparison(
        score_intervals(ours, resamples),
        score_intervals(theirs, resamples),
        difference,
        {"queries": "MRR@10", "pairs": "Spearman"}.get(noun, "Spearman and MRR@10"),
        f"{sizes:,} {'held-out' if list(ours[0]) == [DEV] else 'test'} {noun}",
    )


def score_intervals(system: Sequence[Predictions], resamples: int = 1000) -> dict[str, Interval]:
    """Compute the score of each task times 100, averaged over runs, with intervals over test pairs.

    The score of pairs is Spearman's correlation, and that of queries MRR@10, which are resampled as pairs.

    Args:
        system: Predictions of each run, on the same pairs.
        resamples: Number of bootstrap resamples.

    Returns:
        Score of each task, and under ``average`` the mean over tasks.
    """
    # The difference from a predictor whose score counts as 0.
    return paired_difference(
        system, [{task: constant(found) for task, found in system[0].items()}], resamples
    )


def paired_difference(
    system: Sequence[Predictions], baseline: Sequence[Predictions], resamples: int = 1000
) -> dict[str, Interval]:
    """Compute the difference of a system from a baseline, with intervals over test pairs.

    The pairs, or queries, of each task are resampled with replacement, the same sample for all runs, and
    Spearman's correlation, or MRR@10, times 100 is averaged over the runs (seeds) of each side. The interval
    covers the variation between samples of test pairs, not that between seeds.

    Args:
        system: Predictions of each run of the system.
        baseline: Predictions of each run of the baseline, on the same pairs.
        resamples: Number of bootstrap resamples.

    Returns:
        Difference of each task, and under ``average`` that of the mean over tasks.

    Raises:
        ValueError: The runs were not scored on the same pairs.
    """
    tasks = list(baseline[0])
    units = {task: _units(found) for task, found in baseline[0].items()}
    for run in (*system, *baseline):
        if run.keys() != units.keys() or any(
            not np.array_equal(_units(run[task]), units[task]) for task in tasks
        ):
            raise ValueError("the runs were not scored on the same test pairs.")
    rng = np.random.default_rng(0)  # a fixed seed: the same runs have the same intervals
    draws = {task: np.zeros(resamples + 1) for task in tasks}
    for task in sorted(tasks):  # so that the draws do not depend on the order of the tasks
        ours, theirs = ([_scorer(run[task]) for run in side] for side in (system, baseline))
        size = len(units[task])
        for draw in range(resamples + 1):
            # Draw 0 is the sample itself: the estimate.
            counts = np.bincount(rng.integers(size, size=size), minlength=size) if draw else np.ones(size)
            means = [np.mean([run(counts) for run in side]) for side in (ours, theirs)]
            draws[task][draw] = 100 * (means[0] - means[1])
    draws["average"] = np.mean([draws[task] for task in tasks], axis=0)
    return {
        name: Interval(float(values[0]), *map(float, np.percentile(values[1:], (2.5, 97.5))))
        for name, values in draws.items()
    }


def _units(found: OfTask) -> np.ndarray:
    """Return what two runs on the same pairs, or queries, have in common.

    Of pairs it is the order of the gold scores: training maps those of a user to [0, 5], eval.py leaves them.
    """
    return np.arange(len(found[SELECTS])) if isinstance(found, dict) else _Ranked(found[1]).group


def _scorer(found: OfTask) -> Callable[[np.ndarray], float]:
    """Return the score of a task as a function of how often each pair, or query, is in a resample."""
    if isinstance(found, dict):
        values = found[SELECTS]
        return lambda counts: float(counts @ values / counts.sum())
    cosines, gold = map(_Ranked, found)
    return lambda counts: _correlation(cosines.ranks(counts), gold.ranks(counts), counts)


class _Ranked:
    """N values whose mid-ranks in a resample are computed from counts, without sorting again."""

    def __init__(self, values: np.ndarray) -> None:
        self.group = np.unique(values, return_inverse=True)[1]

    def ranks(self, counts: np.ndarray) -> np.ndarray:
        """Return the centred mid-ranks of all N values in a resample with these counts."""
        sizes = np.bincount(self.group, weights=counts)
        middle = np.cumsum(sizes) - (sizes - 1) / 2
        ranks: np.ndarray = (middle - (counts.sum() + 1) / 2)[self.group]
        return ranks


def _correlation(first: np.ndarray, second: np.ndarray, counts: np.ndarray) -> float:
    """Return Pearson's correlation of centred values weighted by counts; 0 where one side is constant."""
    weighted = counts * first
    norms = np.sqrt((weighted @ first) * (counts * second @ second))
    return float(weighted @ second / norms) if norms > 0 else 0.0
