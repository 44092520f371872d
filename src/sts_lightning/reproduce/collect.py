"""Results of the finished runs of a table."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from sts_lightning.analysis.phases import phases_of
from sts_lightning.config.build import takes
from sts_lightning.core.counts import TrainingCount
from sts_lightning.core.errors import CheckpointError
from sts_lightning.evaluation.ceiling import ceiling
from sts_lightning.evaluation.leaks import leak_free_average, published_leaks
from sts_lightning.evaluation.statistics import Interval, Predictions, paired_difference, score_intervals
from sts_lightning.reproduce.plan import Cell, Table, TableRun
from sts_lightning.reproduce.spec import CITED, RUNS, TableSpec
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import MODEL_SETTINGS, UNKNOWN, TrainedOn, evaluation_text, in_words
from sts_lightning.runs.predictions import comparable_predictions, of_pairs

UNTRAINED = "not trained"

DEV_SETS = {"stsb": "STS-B dev", "stsb_clean": "STS-B dev without test pairs", "suite": "dev suite"}
"""Values of `DevSet` in words."""

A = TypeVar("A")
T = TypeVar("T")


@dataclass
class System:
    """A row of a table with one of its models.

    Attributes:
        name: The row, with the model where the table has several.
        cell: Row and model; None for a cited system, which is not run here.
        published: Published values of the table's columns, by model: those of the row's own model, or where
            none are published for it, those of the others.
        why: Reason why a cited system is not run here.
        planned: Number of planned runs.
        scores: Scores of each finished run.
        predictions: Test predictions of each run that has some.
        clean: Averages of these on the test pairs that occur in no public training set.
        ranks: History rows with ranks, of each run with a `RankMonitor`.
        settings: In words, of each finished run: how dev and test sentences were read (``evaluation``), the
            dev pairs that ``selected`` the reported weights, how these were trained (``training``), ``seed``,
            and the ``version`` of the package that made its scores.
        trained_on: Data of the stages of each finished run.
    """

    name: str
    cell: Cell | None
    published: dict[str, dict[str, float]] = field(default_factory=dict)
    why: str = ""
    planned: int = 0
    scores: list[dict[str, float]] = field(default_factory=list)
    predictions: list[Predictions] = field(default_factory=list)
    clean: list[float] = field(default_factory=list)
    ranks: list[list[dict[str, float]]] = field(default_factory=list)
    settings: list[dict[str, str]] = field(default_factory=list)
    trained_on: list[TrainedOn] = field(default_factory=list)

    def setting(self, name: str) -> list[str]:
        """Return the different values of one of the settings over the runs."""
        return list(dict.fromkeys(values[name] for values in self.settings))

    @property
    def mark(self) -> str:
        """Whether the row ``runs`` or is ``cited``."""
        return CITED if self.cell is None else RUNS

    def mean(self, column: str) -> float | None:
        """Return the mean of a column over the runs; for ``std``, the standard deviation over the seeds."""
        if column == "std":
            return self.spread()
        values = [row[column] for row in self.scores if column in row]
        return statistics.mean(values) if values else None

    def spread(self, column: str | None = None) -> float | None:
        """Return the standard deviation of a column, by default of the average or else of the dev score.

        It is None for fewer than two runs.
        """
        for name in ("average", "dev") if column is None else (column,):
            values = [row[name] for row in self.scores if name in row]
            if len(values) > 1:
                return statistics.stdev(values)
        return None

    @property
    def differing(self) -> list[TrainingCount]:
        """Data of which the papers have another number of examples, each once."""
        stages = [stage for run in self.trained_on for stage in run if stage is not None and stage.differs]
        return [stage for number, stage in enumerate(stages) if stage not in stages[:number]]


@dataclass
class Collected:
    """A table with the results of its runs.

    Attributes:
        table: The table.
        columns: Names of the columns.
        systems: Rows.
        intervals: Bootstrap intervals over test pairs, by system and column.
        differences: Paired differences, by baseline, system and column.
        ceilings: Highest Spearman of a scorer with two values, by test set.
        searches: Dev scores of the candidates, and the chosen candidate, by system.
        problems: Errors of files that could not be read.
    """

    table: Table
    columns: list[str]
    systems: list[System]
    intervals: dict[str, dict[str, Interval]] = field(default_factory=dict)
    differences: dict[str, dict[str, dict[str, Interval]]] = field(default_factory=dict)
    ceilings: dict[str, float] = field(default_factory=dict)
    searches: dict[str, tuple[dict[str, float], str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def collect(table: Table, resamples: int = 1000) -> Collected:
    """Read the finished runs of a table; nothing is written.

    A broken file is reported among the problems, and its run counts as missing.

    Args:
        table: The table.
        resamples: Number of bootstrap resamples.
    """
    problems: list[str] = []
    shown = [cell for cell in table.cells if table.spec.rows[cell.row].shown]
    systems = [_system(table, cell, problems) for cell in shown]
    scored = dict.fromkeys(column for system in systems for row in system.scores for column in row)
    scored.pop("memory", None)
    columns = list(table.spec.columns) or sorted(scored, key=lambda column: column != "dev")
    systems += [
        System(name, None, {"": dict(zip(columns, values, strict=True))}, why=table.spec.why[name])
        for name, values in table.spec.published.get(CITED, {}).items()
    ]
    collected = Collected(table, columns, systems, problems=problems)
    for system in systems:
        _find_intervals(collected, system, resamples)
    for baseline in table.spec.baselines:
        _compare(collected, baseline, resamples)
    gold = next((system.predictions[0] for system in systems if system.predictions), {})
    collected.ceilings = {task: ceiling(scores) for task, (_, scores) in of_pairs(gold).items()}
    if collected.ceilings:
        collected.ceilings["average"] = statistics.mean(collected.ceilings.values())
    for system in systems:
        if system.cell is not None and table.search_runs(system.cell):
            tried = _readable(problems, table.search_scores, system.cell)
            chosen = _readable(problems, table.chosen, system.cell)
            collected.searches[system.name] = (tried or {}, chosen or "")
    problems[:] = dict.fromkeys(problems)  # rows may share a search
    return collected


def _system(table: Table, cell: Cell, problems: list[str]) -> System:
    row = table.spec.rows[cell.row]
    with_models = table.model is None and len(table.spec.models) > 1
    name = f"{cell.model}, {cell.row}" if with_models else cell.row
    system = System(name, cell, _published(table.spec, cell))
    runs = _readable(problems, table.seed_runs, cell)
    system.planned = len(table.run_seeds) if runs is None else len(runs)
    for run in runs or ():
        metrics = _readable(problems, RunFolder.metrics, run.results) if run.run_folder.finished else None
        if metrics is None:
            continue
        system.settings.append(_settings(metrics.details) | {"selected": _selection(run, problems)})
        system.trained_on.append(metrics.trained_on if row.trains or row.after else ())
        scores, memory = metrics.scores, metrics.peak_memory_gb
        system.scores.append(scores if memory is None else {**scores, "memory": memory})
        if "average" in scores and run.results.predictions_file.is_file():
            predictions = _readable(problems, comparable_predictions, run.results)
            if predictions is not None:
                system.predictions.append(predictions)
                clean = leak_free_average(predictions, published_leaks())
                system.clean += [] if clean is None else [clean]
        history = _readable(problems, RunFolder.history, run.results)
        watched = [step for step in history or () if "rank/energy" in step]
        if watched:
            system.ranks.append(watched)
    return system


def _selection(run: TableRun, problems: list[str]) -> str:
    """Return what selected the weights of a run, or those that it evaluates."""
    if run.entry == "eval" and run.after is None:
        return UNTRAINED
    trained = run.results if run.entry == "train" else RunFolder(run.after or "")
    settings = _readable(problems, RunFolder.settings, trained)
    return UNKNOWN if settings is None else selection_text(settings)


def _readable(problems: list[str], read: Callable[[A], T], item: A) -> T | None:
    try:
        return read(item)
    except (CheckpointError, ValueError, OSError) as error:
        problems.append(str(error))
        return None


def _published(spec: TableSpec, cell: Cell) -> dict[str, dict[str, float]]:
    """Return the published values of a row by model; those of other models only show how rows rank."""
    models = [cell.model] if cell.model in spec.published else spec.published
    return {
        str(model): dict(zip(spec.columns, systems[cell.row], strict=True))
        for model, systems in spec.published.items()
        if model in models and model != CITED and cell.row in systems
    }


def _find_intervals(collected: Collected, system: System, resamples: int) -> None:
    """Add the intervals of a row. Without predictions of all runs on the same pairs it has none."""
    reported, predicted = sum("average" in scores for scores in system.scores), len(system.predictions)
    if 0 < predicted < reported:
        collected.problems.append(
            f"{system.name}: predictions of {predicted} of {reported} runs, so no intervals."
        )
    elif predicted:
        try:
            collected.intervals[system.name] = score_intervals(system.predictions, resamples)
        except ValueError as error:
            collected.problems.append(f"{system.name}: {error}")


def _compare(collected: Collected, baseline: str, resamples: int) -> None:
    by_cell = {system.cell: system for system in collected.systems if system.cell is not None}
    differences: dict[str, dict[str, Interval]] = {}
    for cell, system in by_cell.items():
        to = by_cell.get(Cell(baseline, cell.model))
        if to is None or to is system or not {system.name, to.name} <= collected.intervals.keys():
            continue
        try:
            differences[system.name] = paired_difference(system.predictions, to.predictions, resamples)
        except ValueError as error:
            collected.problems.append(f"{system.name} against {to.name}: {error}")
    collected.differences[baseline] = differences


def rank_summary(rows: Sequence[Mapping[str, float]]) -> dict[str, float | None]:
    """Summarise the rank over a run: where it starts and ends, its highest value, and its phases.

    Args:
        rows: History rows with ranks.
    """
    energy = [row["rank/energy"] for row in rows]
    dev = [row["rank/spearman"] for row in rows]
    phases = phases_of(rows)
    assert phases is not None
    return {
        "start": energy[0],
        "highest": max(energy),
        "at step": phases.boundary,
        "at best dev": energy[int(np.argmax(dev))],
        "end": energy[-1],
        "r in phase 1": phases.correlation1,
        "r in phase 2": phases.correlation2,
    }


def _settings(details: Mapping[str, Any]) -> dict[str, str]:
    training, seed = details.get("training", {}), details.get("seed", UNKNOWN)
    return {
        "evaluation": evaluation_text(details),
        "version": str(details.get("versions", {}).get("sts-lightning", UNKNOWN)),
        "training": UNTRAINED if training is None else in_words(training, *MODEL_SETTINGS),
        "seed": UNTRAINED if training is None else str(seed),
    }


def selection_text(settings: Mapping[str, Any]) -> str:
    """Return in words the dev pairs that selected the weights of a run.

    Args:
        settings: Configuration of the run, as plain values.
    """
    data = settings.get("data") or {}
    if data.get("dev_path") is not None:
        return Path(data["dev_path"]).name
    if data.get("dev_split") is not None:
        return f"{settings.get('path')}, {data['dev_split']}"
    if takes(data.get("_target_"), "dev") and "dev" in settings:
        return DEV_SETS.get(settings["dev"], str(settings["dev"]))
    if data.get("dev_fraction") is not None:
        return f"{100 * data['dev_fraction']:g} % of the training pairs"
    return f"dev pairs of {str(data.get('_target_', UNKNOWN)).rpartition('.')[2]}"
