"""The papers' figures, drawn from runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from matplotlib.figure import Figure

from sts_lightning.analysis import figures as draw
from sts_lightning.analysis.system_figures import instability, rank_scores
from sts_lightning.config.trust import NOTHING, Trust
from sts_lightning.errors import ConfigError
from sts_lightning.losses.base import TOP_SCORE
from sts_lightning.losses.siamese import ZeroZoneLoss
from sts_lightning.losses.smooth_k2 import SmoothK2Loss
from sts_lightning.losses.translated_relu import TranslatedReLULoss
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.figure_runs import (
    FigureRun,
    Sentences,
    probing_traces,
    systems,
    trace,
)

RANK = {
    "test": "energy rank of the test sentences, mean over the sets",
    "dev": "energy rank of the monitored dev sentences",
}
SCORE = {"test": "average Spearman x 100", "dev": "dev Spearman x 100"}
MONITORED_SCORE = "Spearman x 100 of the\nmonitored dev pairs"
"""Score of the pairs that the rank monitor reads, which need not be all dev pairs."""
MONITOR = {"rank": "rank/energy", "score": "rank/spearman"}

DEFINITIONS = {
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

COLUMNS = 4
"""Most systems of a figure that has a panel for each."""


def regression_figure2() -> Figure:
    """Draw Translated ReLU and Smooth K2 with k = 2 and x0 = 0.25."""
    errors = torch.linspace(0, 2, 401)
    k, x0 = 2.0, 0.25
    losses: dict[str, ZeroZoneLoss] = {
        "Translated ReLU": TranslatedReLULoss(1, TOP_SCORE, k=k, x0=x0),
        "Smooth K2": SmoothK2Loss(1, TOP_SCORE, k=k, x0=x0),
    }
    curves = {f"{name}, k = {k:g}": loss.penalty(errors).tolist() for name, loss in losses.items()}
    return draw.loss_curves(errors.tolist(), curves, x0)


def rank_figure1(runs: Sequence[FigureRun], source: str, sentences: Sentences) -> Figure:
    """Draw score against rank of each system, with and without rank reduction."""
    found = systems(runs, sentences)
    return rank_scores(found, RANK[sentences], SCORE[sentences], f"Rank and score: {source}")


def rank_figure2(runs: Sequence[FigureRun], source: str, sentences: Sentences) -> Figure:
    """Draw rank and dev score over steps."""
    traces = [trace(run, MONITOR) for run in runs]
    return draw.rank_dynamics(
        traces,
        "energy rank of the\nmonitored dev sentences",
        MONITORED_SCORE,
        f"Rank and score over training\n{source}",
    )


def rank_figure3(runs: Sequence[FigureRun], source: str, sentences: Sentences) -> Figure:
    """Draw alignment and uniformity of two dropout views over steps, by both definitions."""
    _few(runs)
    columns = {name: name for names in DEFINITIONS.values() for name in names}
    hint = "train with callbacks=rank_monitor callbacks.rank_monitor.views=dropout."
    traces = [trace(run, columns, hint) for run in runs]
    return draw.two_sides(traces, DEFINITIONS, f"Alignment and uniformity of two dropout views\n{source}")


def rank_figure4(folders: Sequence[RunFolder], source: str, trust: Trust = NOTHING) -> Figure:
    """Draw the accuracy on the probing tasks over steps, from evaluations of kept weights."""
    traces = probing_traces(folders, trust)
    if any(len(one.steps) < 2 for one in traces):
        raise ConfigError("probing over training needs evaluations of two steps or more of each run.")
    groups = {
        heading: [task for task in tasks if task in traces[0].values] for heading, tasks in GROUPS.items()
    }
    drawn = {heading: tasks for heading, tasks in groups.items() if tasks}
    return draw.groups_over_steps(traces, drawn, "accuracy x 100", f"Probing tasks over training\n{source}")


def rank_figure6(runs: Sequence[FigureRun], source: str, sentences: Sentences) -> Figure:
    """Draw the standard deviation over seeds of each system against its rank."""
    found = systems(runs, sentences)
    try:
        return instability(found, RANK[sentences], SCORE[sentences], f"Rank and instability: {source}")
    except ValueError as error:
        raise ConfigError(str(error), hint="Add seeds or systems.") from error


def rank_figure7(runs: Sequence[FigureRun], source: str, sentences: Sentences) -> Figure:
    """Draw the ends of phase 2 of several seeds."""
    _few(runs)
    traces = [trace(run, MONITOR) for run in runs]
    return draw.phase_ends(traces, MONITORED_SCORE, f"Ends of phase 2: {source}")


def _few(runs: Sequence[FigureRun]) -> None:
    names = list(dict.fromkeys(run.system for run in runs))
    if len(names) > COLUMNS:
        raise ConfigError(
            f"this figure has a panel for each system, at most {COLUMNS}, and there are {len(names)}: "
            f"{'; '.join(names)}.",
            hint="name fewer runs, or rows of the table with --rows.",
        )


Draw = Callable[[Sequence[FigureRun], str, Sentences], Figure]

OF_RUNS: dict[str, Draw] = {
    "rank_figure1": rank_figure1,
    "rank_figure2": rank_figure2,
    "rank_figure3": rank_figure3,
    "rank_figure6": rank_figure6,
    "rank_figure7": rank_figure7,
}
"""Drawings from training runs, by name of the figure."""
