"""The figures of the papers, drawn from run folders, or folders of them, into FIGURE.png.

    python examples/paper_figures.py regression_figure2
    python examples/paper_figures.py rank_figure1 runs/rank/*

Runs that differ in the seed alone are a system, named by what distinguishes it from the others.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib import pyplot as plt

from sts_lightning.losses.base import TOP_SCORE
from sts_lightning.losses.regression import SmoothK2Loss, TranslatedReLULoss
from sts_lightning.papers.phases import phases_of
from sts_lightning.runs.listing import ListedRun, find_runs, group_seeds

Systems = Mapping[str, Sequence[ListedRun]]
"""Finished runs by the name of their system, one for each seed."""

SIDES = {
    "rank reduction, Eq. 4 and 5": ("rank/dropout_alignment", "rank/dropout_uniformity"),
    "Wang & Isola": ("rank/dropout_sphere_alignment", "rank/dropout_sphere_uniformity"),
}
"""Columns of alignment and uniformity of two dropout views, by definition."""

GROUPS = {
    "Group 1 (in the paper: falls, then recovers)": ("Length", "Depth", "TopConstituents"),
    "Group 2 (in the paper: rises)": ("WordContent", "SubjNumber", "ObjNumber"),
    "Group 3 (in the paper: falls or oscillates)": (
        "BigramShift",
        "CoordinationInversion",
        "Tense",
        "OddManOut",
    ),
}
"""Probing tasks of the three panels, as in the paper."""


def regression_figure2(systems: Systems) -> None:
    """Penalties of STS-Regression over the error; of no run."""
    errors, k, x0 = torch.linspace(0, 2, 401), 2.0, 0.25
    _, panels = plt.subplots(1, 2, sharey=True, figsize=(9, 4))
    for panel, loss in zip(panels, (TranslatedReLULoss, SmoothK2Loss), strict=True):
        panel.plot(errors, loss(1, TOP_SCORE, k=k, x0=x0).penalty(errors))
        panel.axvline(x0, color="grey", linestyle=":")
        panel.set(
            title=f"{loss.__name__}, k = {k:g}, x0 = {x0:g}", xlabel="|prediction - label|", ylabel="penalty"
        )


def rank_figure1(systems: Systems) -> None:
    """Rank and score of systems, trained with evaluation.rank=true."""
    for name, (rank, scores) in ranks_and_scores(systems).items():
        plt.plot(rank, statistics.mean(scores), "o", label=name)
    plt.gca().set(xlabel="energy rank of the test sentences", ylabel="average Spearman x 100")
    plt.legend()


def rank_figure6(systems: Systems) -> None:
    """Rank and deviation over seeds of three systems or more, trained likewise."""
    points = {
        name: (rank, statistics.stdev(scores)) for name, (rank, scores) in ranks_and_scores(systems).items()
    }
    for name, point in points.items():
        plt.plot(*point, "o", label=name)
    r = np.corrcoef(np.array(list(points.values())).T)[0, 1]
    plt.gca().set(
        xlabel="energy rank of the test sentences", ylabel="deviation over seeds", title=f"r = {r:.2f}"
    )
    plt.legend()


def ranks_and_scores(systems: Systems) -> dict[str, tuple[float, list[float]]]:
    """Return the mean rank of each system, and the average of each of its runs."""
    scores = {name: [run.metrics.scores for run in runs if run.metrics] for name, runs in systems.items()}
    return {
        name: (statistics.mean(row["rank"] for row in rows), [row["average"] for row in rows])
        for name, rows in scores.items()
    }


def history(run: ListedRun) -> list[dict[str, float]]:
    """Return the rows of a run's history at which its rank was measured."""
    return [row for row in run.folder.history() if "rank/energy" in row]


def rank_figure2(systems: Systems) -> None:
    """Rank and dev score over steps, of runs with callbacks=rank_monitor."""
    _, panels = plt.subplots(2, sharex=True, figsize=(8, 6.5))
    for panel, column in zip(panels, ("rank/energy", "rank/spearman"), strict=True):
        for number, (name, runs) in enumerate(systems.items()):
            for rows in map(history, runs):
                steps = [row["step"] for row in rows]
                panel.plot(steps, [row[column] for row in rows], color=f"C{number % 10}", label=name)
        panel.set_ylabel(f"{column} of the monitored dev pairs")
    handles = dict(zip(*reversed(panels[0].get_legend_handles_labels()), strict=True))
    panels[1].legend(handles.values(), handles)


def rank_figure3(systems: Systems) -> None:
    """Alignment and uniformity of dropout views, also with callbacks.rank_monitor.views=dropout."""
    _, panels = plt.subplots(
        len(SIDES), len(systems), squeeze=False, sharex=True, figsize=(5.5 * len(systems), 7)
    )
    for line, (definition, columns) in zip(panels, SIDES.items(), strict=True):
        for panel, (name, runs) in zip(line, systems.items(), strict=True):
            for axis, column, colour in zip(
                (panel, panel.twinx()), columns, ("tab:blue", "tab:orange"), strict=True
            ):
                for rows in map(history, runs):
                    axis.plot([row["step"] for row in rows], [row[column] for row in rows], color=colour)
                axis.set_ylabel(column.rpartition("_")[2], color=colour)
            panel.set_title(f"{name}: {definition}", fontsize=10)


def rank_figure4(systems: Systems) -> None:
    """Probing tasks over steps, of evaluations with ckpt=RUN step=... suite=probing."""
    found = [run.metrics for runs in systems.values() for run in runs if run.metrics]
    steps: dict[str, dict[int, dict[str, float]]] = {
        run: {} for run in dict.fromkeys(metrics.details["ckpt"] for metrics in found)
    }
    for metrics in found:
        steps[metrics.details["ckpt"]][metrics.details["step"]] = metrics.scores
    _, panels = plt.subplots(1, len(GROUPS), sharex=True, figsize=(13, 4.2))
    for panel, (heading, tasks) in zip(panels, GROUPS.items(), strict=True):
        for run, scores in steps.items():
            for task in tasks:
                known = [(step, row[task]) for step, row in sorted(scores.items()) if task in row]
                panel.plot(
                    *zip(*known, strict=True), "o-", label=f"{task}, {Path(run).name}"
                ) if known else None
        panel.set_title(heading, fontsize=10)
        panel.legend(fontsize=8)


def rank_figure5(systems: Systems) -> None:
    """Rank against dev score, by phase, of runs with callbacks=rank_monitor."""
    runs = [run for group in systems.values() for run in group]
    _, panels = plt.subplots(1, len(runs), squeeze=False, figsize=(5.5 * len(runs), 4.5))
    for panel, run in zip(panels[0], runs, strict=True):
        phases = phases_of(run.folder.history())
        if phases is None:
            continue
        groups = (
            # Both phases have the point of the boundary, as their correlations do.
            ("phase 1", phases.correlation1, 0, phases.boundary),
            ("phase 2", phases.correlation2, phases.boundary, phases.end),
            ("after", None, phases.end + 1, math.inf),
        )
        for name, correlation, first, last in groups:
            rows = [row for row in history(run) if first <= row["step"] <= last]
            label = name if correlation is None else f"{name}: r = {correlation:+.2f}"
            points = [[row[column] for row in rows] for column in ("rank/energy", "rank/spearman")]
            panel.plot(*points, "o-", label=label)
        panel.set(xlabel="energy rank", ylabel="dev Spearman x 100", title=run.folder.path.name)
        panel.legend()


def rank_figure7(systems: Systems) -> None:
    """Ends of phase 2, of runs with callbacks=rank_monitor."""
    _, panels = plt.subplots(1, len(systems), squeeze=False, sharey=True, figsize=(5 * len(systems), 4.3))
    for panel, (name, runs) in zip(panels[0], systems.items(), strict=True):
        for number, run in enumerate(runs):
            scores = {row["step"]: row["rank/spearman"] for row in history(run)}
            phases = phases_of(run.folder.history())
            panel.plot(list(scores), list(scores.values()), color=f"C{number % 10}", alpha=0.6)
            if phases is not None:
                label = f"seed {run.settings['seed']}: step {phases.end}"
                panel.plot(
                    phases.end, scores[phases.end], "*", color=f"C{number % 10}", markersize=13, label=label
                )
        panel.set(title=name, xlabel="optimiser step")
        panel.legend(fontsize=8)


FIGURES = {name: draw for name, draw in list(globals().items()) if "_figure" in name}

if __name__ == "__main__":
    known = "\n".join(f"  {name}: {draw.__doc__}" for name, draw in FIGURES.items())
    parser = argparse.ArgumentParser(
        description=f"{__doc__}\n{known}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("figure", choices=FIGURES)
    parser.add_argument("runs", type=Path, nargs="*")
    given = parser.parse_args()
    listed = [run for path in given.runs for run in find_runs(path) if run.metrics]
    named = {
        ", ".join(f"{key}={value}" for key, value in group.settings.items()) or group.name(Path()): group.runs
        for group in group_seeds(listed)
    }
    FIGURES[given.figure](named)
    plt.savefig(f"{given.figure}.png", dpi=150, bbox_inches="tight")
