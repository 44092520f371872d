"""The papers' figures, drawn from runs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml
from matplotlib.figure import Figure

from sts_lightning.analysis import figures as draw
from sts_lightning.analysis.figures import System, Trace
from sts_lightning.analysis.phases import phases_of
from sts_lightning.config.check import path_override
from sts_lightning.core.conf_folders import command_line, typed_here
from sts_lightning.core.errors import CheckpointError, ConfigError
from sts_lightning.reproduce.plan import Table
from sts_lightning.reproduce.run import print_entry
from sts_lightning.runs.folder import RunFolder, check_distinct

Sentences = Literal["test", "dev"]
"""Sentences whose rank and score are drawn: those of the test sets, or the dev pairs of the rank monitor."""

MONITORED = "train with callbacks=rank_monitor."


@dataclass(frozen=True)
class FigureRun:
    """A finished run of a figure.

    Attributes:
        folder: Folder of the run.
        system: Name of the system, which runs of other seeds share.
        seed: Random seed.
        reduced: Whether it was trained with rank reduction.
        method: What systems with and without rank reduction have in common.
    """

    folder: RunFolder
    system: str
    seed: int
    reduced: bool
    method: str


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


def regression_figure2() -> Figure:
    """Draw Translated ReLU and Smooth K2 with k = 2 and x0 = 0.25."""
    import torch  # no other figure needs it, nor does their list

    from sts_lightning.losses.base import TOP_SCORE
    from sts_lightning.losses.smooth_k2 import SmoothK2Loss
    from sts_lightning.losses.translated_relu import TranslatedReLULoss

    errors = torch.linspace(0, 2, 401)
    k, x0 = 2.0, 0.25
    losses = {
        "Translated ReLU": TranslatedReLULoss(1, TOP_SCORE, k=k, x0=x0),
        "Smooth K2": SmoothK2Loss(1, TOP_SCORE, k=k, x0=x0),
    }
    curves = {f"{name}, k = {k:g}": loss.penalty(errors).tolist() for name, loss in losses.items()}
    return draw.loss_curves(errors.tolist(), curves, x0)


def rank_figure1(runs: Sequence[FigureRun], source: str, sentences: Sentences) -> Figure:
    """Draw score against rank of each system, with and without rank reduction."""
    points = systems(runs, sentences)
    return draw.system_points(points, RANK[sentences], SCORE[sentences], f"Rank and score: {source}")


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
    columns = {name: name for names in DEFINITIONS.values() for name in names}
    hint = "train with callbacks=rank_monitor callbacks.rank_monitor.views=dropout."
    traces = [trace(run, columns, hint) for run in runs]
    return draw.two_sides(traces, DEFINITIONS, f"Alignment and uniformity of two dropout views\n{source}")


def rank_figure4(folders: Sequence[RunFolder], source: str) -> Figure:
    """Draw the accuracy on the probing tasks over steps, from evaluations of kept weights."""
    traces = probing_traces(folders)
    groups = {
        heading: [task for task in tasks if task in traces[0].values] for heading, tasks in GROUPS.items()
    }
    drawn = {heading: tasks for heading, tasks in groups.items() if tasks}
    return draw.groups_over_steps(traces, drawn, "accuracy x 100", f"Probing tasks over training\n{source}")


def rank_figure6(runs: Sequence[FigureRun], source: str, sentences: Sentences) -> Figure:
    """Draw the standard deviation over seeds of each system against its rank."""
    points, title = systems(runs, sentences), f"Rank and instability: {source}"
    try:
        return draw.system_points(points, RANK[sentences], SCORE[sentences], title, spread=True)
    except ValueError as error:
        raise ConfigError(str(error), hint="Add seeds or systems.") from error


def rank_figure7(runs: Sequence[FigureRun], source: str, sentences: Sentences) -> Figure:
    """Draw the ends of phase 2 of several seeds."""
    traces = [trace(run, MONITOR) for run in runs]
    return draw.phase_ends(traces, MONITORED_SCORE, f"Ends of phase 2: {source}")


def read_run(folder: RunFolder, system: str) -> FigureRun:
    """Read a run of a system.

    Raises:
        CheckpointError: The folder is not one of a finished run.
    """
    last = folder
    cfg = last.settings()
    if not last.finished:
        command = command_line("train", path_override("resume", folder.name))
        raise CheckpointError(f"{folder.name} is not a finished run.", hint=f"{command} resumes it.")
    method = f"{cfg['name']}\n{json.dumps(cfg['model'], sort_keys=True)}"
    regularizer = cfg.get("regularizer") or {}
    reduced = "decrease" in (regularizer.get("phase1"), regularizer.get("phase2"))
    return FigureRun(last, system, int(cfg["seed"]), reduced, method)


def name_runs(folders: Sequence[RunFolder]) -> list[FigureRun]:
    """Read runs that are of no table, each a system that is named after its folder."""
    return [read_run(folder, folder.path.resolve().name) for folder in folders]


def systems(runs: Sequence[FigureRun], sentences: Sentences) -> list[System]:
    """Return rank and score of each system; its original is the first of its method without rank reduction.

    Args:
        runs: Finished runs.
        sentences: Sentences whose rank and score are read.

    Raises:
        CheckpointError: A run has no rank of these sentences.
    """
    originals = {run.method: run.system for run in reversed(runs) if not run.reduced}
    points = []
    for name in dict.fromkeys(run.system for run in runs):
        seeds = [run for run in runs if run.system == name]
        ranks, scores = zip(*(_rank_and_score(run, sentences) for run in seeds), strict=True)
        original = originals.get(seeds[0].method) if seeds[0].reduced else None
        points.append(System(name, seeds[0].reduced, ranks, scores, original))
    return points


def _rank_and_score(run: FigureRun, sentences: Sentences) -> tuple[float, float]:
    metrics = run.folder.metrics()
    if sentences == "test":
        scores = metrics.scores
        if "rank" not in scores or "average" not in scores:
            raise CheckpointError(
                f"{run.folder.name} has no rank of the test sentences.",
                hint="train with evaluation.rank=true, or draw those of the rank monitor with --on dev.",
            )
        return scores["rank"], scores["average"]
    step = metrics.details.get("best_step")
    at = {row["step"]: row["rank/energy"] for row in run.folder.history() if "rank/energy" in row}
    if step not in at or metrics.dev is None:
        raise CheckpointError(
            f"{run.folder.name} has no rank of the dev sentences at the selected step ({step}).",
            hint="train with callbacks=rank_monitor, whose interval divides that of the dev evaluations.",
        )
    return at[step], metrics.score


def trace(run: FigureRun, columns: Mapping[str, str], hint: str = MONITORED) -> Trace:
    """Return columns of a run's history over the steps at which its rank was measured.

    Args:
        run: A run with a rank monitor.
        columns: Columns of the history, by name.
        hint: What to do if one of them is absent.

    Raises:
        CheckpointError: The history lacks a column.
    """
    rows = [row for row in run.folder.history() if "rank/energy" in row]
    absent = [column for column in columns.values() if not rows or any(column not in row for row in rows)]
    if absent:
        raise CheckpointError(f"the history of {run.folder.name} has no {absent[0]}.", hint=hint)
    values = {name: [row[column] for row in rows] for name, column in columns.items()}
    return _trace(run, [row["step"] for row in rows], values)


def _trace(run: FigureRun, steps: Sequence[int], values: Mapping[str, Sequence[float]]) -> Trace:
    phases = phases_of(run.folder.history())
    return Trace(run.system, f"seed {run.seed}", run.reduced, steps, values, phases)


def probing_traces(folders: Sequence[RunFolder]) -> list[Trace]:
    """Return the probing scores of each run over its kept steps.

    Args:
        folders: Folders of evaluations with ``suite=probing``, each of one step of a run.

    Raises:
        CheckpointError: A folder is of something else.
    """
    scores: dict[str, dict[int, dict[str, float]]] = {}
    for folder in folders:
        metrics = folder.metrics()
        run, step = metrics.details.get("ckpt"), metrics.details.get("step")
        if metrics.details.get("suite") != "probing" or run is None or step is None:
            raise CheckpointError(
                f"{folder.name} is not an evaluation of a run's step on the probing tasks.",
                hint=f"{command_line('eval', 'ckpt=RUN', 'step=N', 'suite=probing')} makes one.",
            )
        of_tasks = {name: score for name, score in metrics.scores.items() if name != "average"}
        scores.setdefault(run, {})[step] = of_tasks
    traces = []
    for run, steps in zip(name_runs([RunFolder(run) for run in scores]), scores.values(), strict=True):
        rows = [steps[step] for step in sorted(steps)]
        traces.append(_trace(run, sorted(steps), {task: [row[task] for row in rows] for task in rows[0]}))
    return traces


@dataclass(frozen=True)
class FigureSpec:
    """A figure of a paper.

    Attributes:
        title: Paper, number and content.
        needs: Runs that it is drawn from.
        commands: Commands that make these runs and draw the figure.
        drawn_from: What it is drawn from: the runs of a table (``--table``), or run folders.
    """

    title: str
    needs: str
    drawn_from: Literal["nothing", "table", "runs", "evaluations"]
    commands: Sequence[str]


_FILE = Path(__file__).with_name("figures.yaml")

FIGURES = {name: FigureSpec(**spec) for name, spec in yaml.safe_load(_FILE.read_text("utf-8")).items()}
"""The figures by name."""


def list_figures() -> None:
    """Print the figures with what each needs and the commands that make it."""
    for name, spec in FIGURES.items():
        print_entry(name, spec.title, (f"needs {spec.needs}", *map(typed_here, spec.commands)))


def check_figure(name: str, runs: bool, table: bool) -> None:
    """Reject a figure that does not exist, or that is drawn from something else.

    Args:
        name: Its name.
        runs: Whether run folders are given.
        table: Whether a table is.

    Raises:
        ConfigError: See above.
    """
    spec = FIGURES.get(name)
    if spec is None:
        raise ConfigError(f"there is no figure {name}; there are: {', '.join(FIGURES)}.", key="name")
    if runs != (spec.drawn_from in ("runs", "evaluations")) or table != (spec.drawn_from == "table"):
        commands = "; ".join(map(typed_here, spec.commands))
        raise ConfigError(f"{name} needs {spec.needs}: {commands}", key="runs")


def draw_folders(name: str, runs: Sequence[Path], on: Sentences) -> Figure:
    """Draw a figure from run folders, which a pattern may match beside files, or from none.

    Raises:
        CheckpointError: There are files only, or a folder is not what the figure is drawn from.
    """
    spec = FIGURES[name]
    if spec.drawn_from == "nothing":
        return regression_figure2()
    paths = [path for path in runs if not path.is_file()]
    if not paths:
        raise CheckpointError("these are files; name run folders.", key="runs")
    check_distinct(paths)
    folders = [RunFolder(path) for path in paths]
    source = ", ".join(str(path) for path in paths)
    if len(paths) > 3:
        above = os.path.relpath(os.path.commonpath([path.absolute() for path in paths]))
        source = f"{len(paths)} folders in {above}"
    if spec.drawn_from == "evaluations":
        return rank_figure4(folders, source)
    return _draw(name, name_runs(folders), source, on)


def draw_rows(name: str, table: Table, of: str, rows: Sequence[str], on: Sentences) -> Figure:
    """Draw a figure from the finished runs of a table.

    Args:
        name: Name of the figure.
        table: The table.
        of: Name of its file.
        rows: Its rows; all if empty.
        on: Sentences whose rank and score are drawn.

    Raises:
        ConfigError: There is no such row.
        CheckpointError: A run has not finished.
    """
    cells = [
        cell for cell in table.cells if table.spec.rows[cell.row].trains and table.spec.rows[cell.row].shown
    ]
    known = list(dict.fromkeys(cell.row for cell in cells))
    unknown = sorted(set(rows) - set(known))
    if unknown:
        raise ConfigError(
            f"--row: {unknown[0]} is not a trained row of {of}; there are: {'; '.join(known)}.", key="rows"
        )
    cells = [cell for cell in cells if not rows or cell.row in rows]
    many_models = len({cell.model for cell in cells}) > 1
    runs = [
        (f"{cell.row}, {cell.model}" if many_models else cell.row, run)
        for cell in cells
        for run in table.trained_runs(cell)
    ]
    seeds = ", ".join(str(seed) for seed in table.run_seeds)
    models = ", ".join(dict.fromkeys(str(cell.model) for cell in cells if cell.model is not None))
    source = ", ".join(part for part in (of, models, f"seeds {seeds}") if part)
    return _draw(name, [read_run(run.run_folder, row) for row, run in runs], source, on)


def _draw(name: str, runs: Sequence[FigureRun], source: str, on: Sentences) -> Figure:
    drawings = (rank_figure1, rank_figure2, rank_figure3, rank_figure6, rank_figure7)
    return {drawing.__name__: drawing for drawing in drawings}[name](runs, source, on)
