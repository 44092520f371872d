"""Two phases of contrastive training: the rank rises, then falls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats


class PeakDetector:
    """Online detection that a curve has passed its peak.

    The peak counts as passed when ``patience`` consecutive values are more than ``margin`` below the highest
    value so far.

    Args:
        patience: Number of consecutive values, at least 1.
        margin: Distance below the highest value, relative to it.
    """

    def __init__(self, patience: int = 3, margin: float = 0.01) -> None:
        if patience < 1:
            raise ValueError(f"patience must be at least 1, got {patience}.")
        if not 0 <= margin < 1:
            raise ValueError(f"margin must lie in [0, 1), got {margin}.")
        self.patience = patience
        self.margin = margin
        self.highest = -np.inf
        self.below = 0
        self.passed = False

    def update(self, value: float) -> bool:
        """Add a value and return whether the peak has been passed."""
        self.highest = max(self.highest, value)
        self.below = self.below + 1 if value < self.highest * (1 - self.margin) else 0
        self.passed = self.passed or self.below >= self.patience
        return self.passed

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint; the highest value as a plain float, which torch loads safely."""
        return {"highest": float(self.highest), "below": self.below, "passed": self.passed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state from a checkpoint."""
        self.highest, self.below, self.passed = state["highest"], state["below"], state["passed"]


@dataclass(frozen=True)
class Phases:
    """Phases of a finished run (rank-reduction paper, Sec. 3).

    Attributes:
        boundary: Step of the highest rank, the end of phase 1.
        end: Step of the best score from there on, the end of phase 2.
        correlation1: Pearson's correlation of rank and score in phase 1; None if the phase has fewer than
            three points or no variation. The paper reports 0.85.
        correlation2: The same in phase 2. The paper reports -0.81.
    """

    boundary: int
    end: int
    correlation1: float | None
    correlation2: float | None


def find_phases(steps: Sequence[int], ranks: Sequence[float], scores: Sequence[float]) -> Phases:
    """Split a run at its highest rank.

    Args:
        steps: Steps of the measurements, ascending, at least one.
        ranks: Rank at each step.
        scores: Dev score at each step.
    """
    if not len(steps) == len(ranks) == len(scores) or not steps:
        raise ValueError("steps, ranks and scores must have the same length, at least 1.")
    peak = int(np.argmax(ranks))
    end = peak + int(np.argmax(scores[peak:]))
    return Phases(
        steps[peak],
        steps[end],
        _correlation(ranks[: peak + 1], scores[: peak + 1]),
        _correlation(ranks[peak : end + 1], scores[peak : end + 1]),
    )


def phases_of(history: Iterable[Mapping[str, Any]]) -> Phases | None:
    """Split a run by the rows of its history; None without the values of a `RankMonitor`."""
    rows = [row for row in history if "rank/energy" in row]
    if not rows:
        return None
    steps, ranks, scores = ([row[name] for row in rows] for name in ("step", "rank/energy", "rank/spearman"))
    return find_phases(steps, ranks, scores)


def _correlation(ranks: Sequence[float], scores: Sequence[float]) -> float | None:
    if len(ranks) < 3 or np.ptp(ranks) == 0 or np.ptp(scores) == 0:
        return None
    return float(stats.pearsonr(ranks, scores).statistic)
