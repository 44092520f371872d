"""Figures of a run that a `RankMonitor` has watched."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from sts_lightning.papers.phases import Phases
from sts_lightning.workflows.plots import new_figure, save_figure

PANELS = {
    "rank/energy": "energy rank",
    "rank/alignment": "alignment",
    "rank/uniformity": "uniformity",
    "rank/spearman": "dev Spearman x 100",
}
"""Panels of the curves, from top to bottom, with their labels."""


def _plot_curves(rows: Sequence[Mapping[str, float]], phases: Phases, path: Path, title: str) -> None:
    """Plot the values of a `RankMonitor` over the steps of a history, and mark the ends of both phases."""
    figure = new_figure(7, 8)
    axes = figure.subplots(len(PANELS), sharex=True)
    for axis, (name, label) in zip(axes, PANELS.items(), strict=True):
        points = [(row["step"], row[name]) for row in rows if name in row]
        if points:
            axis.plot(*zip(*points, strict=True), marker="o", markersize=3, linewidth=1)
        axis.axvline(phases.boundary, color="tab:red", linestyle="--", linewidth=1, label="highest rank")
        end = {"color": "tab:green", "linestyle": ":", "linewidth": 1.5, "label": "best dev score since"}
        axis.axvline(phases.end, **end)
        axis.set_ylabel(label)
        axis.grid(alpha=0.25)
    axes[0].set_title(title)
    axes[0].legend(fontsize="small")
    axes[-1].set_xlabel("optimiser step")
    save_figure(figure, path)


def _plot_scores(rows: Sequence[Mapping[str, float]], phases: Phases, path: Path, title: str) -> None:
    """Plot dev Spearman against energy rank, coloured by phase, with the correlation of each phase."""
    figure = new_figure(5.5, 4.5)
    axis = figure.add_subplot()
    groups = (
        # Both phases have the point of the boundary, as their correlations do.
        ("phase 1", phases.correlation1, "tab:blue", 0, phases.boundary),
        ("phase 2", phases.correlation2, "tab:orange", phases.boundary, phases.end),
        ("after", None, "tab:gray", phases.end + 1, math.inf),
    )
    for name, correlation, colour, first, last in groups:
        points = [(row["rank/energy"], row["rank/spearman"]) for row in rows if first <= row["step"] <= last]
        if points:
            label = name if correlation is None else f"{name}: r = {correlation:+.2f}"
            axis.plot(
                *zip(*points, strict=True), color=colour, marker="o", markersize=4, linewidth=0.7, label=label
            )
    axis.set(xlabel="energy rank", ylabel="dev Spearman x 100", title=title)
    axis.grid(alpha=0.25)
    axis.legend()
    save_figure(figure, path)


def plot_ranks(rows: Sequence[Mapping[str, float]], phases: Phases, folder: Path, title: str) -> None:
    """Plot the values of a `RankMonitor` of a finished run into a folder.

    Args:
        rows: Rows of the history that have them.
        phases: Phases of the run.
        folder: Folder of the two images.
        title: Title of both.
    """
    _plot_curves(rows, phases, folder / "rank_curves.png", title)
    _plot_scores(rows, phases, folder / "rank_against_dev.png", title)
