"""The papers' figures with a point for each system, drawn from plain numbers."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from sts_lightning.analysis.figures import PLAIN, REDUCED
from sts_lightning.analysis.plots import new_figure


@dataclass(frozen=True)
class System:
    """Rank and score of each run of a system.

    Attributes:
        name: Name of the system.
        reduced: Whether it was trained with rank reduction.
        ranks: Rank of each run.
        scores: Score of each run times 100.
        original: Name of the same system without rank reduction, if it is drawn too.
    """

    name: str
    reduced: bool
    ranks: Sequence[float]
    scores: Sequence[float]
    original: str | None = None

    @property
    def spread(self) -> float:
        """Standard deviation of the score over the runs, of which there must be two."""
        return statistics.stdev(self.scores)


def rank_scores(systems: Sequence[System], rank: str, score: str, title: str) -> Figure:
    """Draw the mean score of each system against its mean rank (rank reduction, Figure 1).

    A line leads from a system to the same one with rank reduction.

    Args:
        systems: The systems.
        rank: Label of the ranks.
        score: Label of the scores.
        title: Title of the figure.
    """
    figure = new_figure(7, 5)
    axis = figure.add_subplot()
    places = {one.name: (statistics.mean(one.ranks), statistics.mean(one.scores)) for one in systems}
    for one in systems:
        if one.original is not None:
            axis.annotate(
                "",
                places[one.name],
                places[one.original],
                arrowprops={"arrowstyle": "->", "color": "grey", "shrinkA": 6, "shrinkB": 6},
            )
    _points(axis, systems, places)
    axis.set(xlabel=rank, ylabel=score, title=title)
    return figure


def instability(systems: Sequence[System], rank: str, score: str, title: str) -> Figure:
    """Draw the spread of each system's score over seeds against its mean rank (rank reduction, Figure 6).

    Args:
        systems: At least three systems of two runs or more.
        rank: Label of the ranks.
        score: Name of the scores.
        title: Title of the figure, to which Pearson's correlation is added.

    Raises:
        ValueError: There are too few systems or runs.
    """
    few = [one.name for one in systems if len(one.scores) < 2]
    if few:
        raise ValueError(f"{few[0]} has one run: the spread over seeds needs two or more.")
    if len(systems) < 3:
        raise ValueError(f"the correlation needs three systems or more, and there are {len(systems)}.")
    figure = new_figure(7, 5)
    axis = figure.add_subplot()
    places = {one.name: (statistics.mean(one.ranks), one.spread) for one in systems}
    r = float(stats.pearsonr(*zip(*places.values(), strict=True)).statistic)
    _points(axis, systems, places)
    axis.set(
        xlabel=rank, ylabel=f"standard deviation of {score}", title=f"{title}\nPearson's correlation {r:.2f}"
    )
    return figure


def _points(axis: Axes, systems: Sequence[System], places: Mapping[str, tuple[float, float]]) -> None:
    """One point for each system; blue without rank reduction, red with it."""
    for reduced, colour, label in ((False, PLAIN, "original"), (True, REDUCED, "with rank reduction")):
        points = [places[one.name] for one in systems if one.reduced is reduced]
        if points:
            axis.plot(*zip(*points, strict=True), "o", color=colour, markersize=7, label=label)
    for name, place in places.items():
        axis.annotate(name, place, xytext=(8, 4), textcoords="offset points", fontsize=9)
    axis.margins(x=0.2, y=0.15)
    axis.grid(alpha=0.25)
    axis.legend(loc="best")
