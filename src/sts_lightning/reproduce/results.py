"""The results of a table: its finished runs beside the published numbers, as Markdown, LaTeX and CSV."""

from __future__ import annotations

import logging
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any

import pandas as pd
from rich.console import Console

from sts_lightning.config.identity import select
from sts_lightning.core.errors import CheckpointError
from sts_lightning.core.files import write_atomic
from sts_lightning.evaluation.statistics import Interval, Predictions, paired_difference, score_intervals
from sts_lightning.reproduce.leak_free import leak_free_average, published_leaks
from sts_lightning.reproduce.table import CITED, RUNS, Cell, Run, Table, compared_column
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.listing import Group, read_run
from sts_lightning.runs.metrics import MODEL_SETTINGS, UNKNOWN, RunMetrics, evaluation_text, in_words
from sts_lightning.runs.predictions import check_same_texts, comparable_predictions, of_pairs
from sts_lightning.sweep.job import Job

log = logging.getLogger(__name__)

MISSING = "missing"

UNTRAINED = "not trained"

CLEAN = "clean pairs"
"""Column of the average on the test pairs that occur in no public training set."""

STATED = {
    "evaluation": "Dev and test sentences",
    "selected by": "Dev pairs that select the weights",
    "training": "Training",
    "seed": "Seeds",
    "version": "Versions of sts-lightning",
}
"""What is stated of the runs of a row, with its words in notes: rows that differ are hardly comparable."""


@dataclass
class System:
    """A row of a table with one of its models.

    Attributes:
        name: The row, with the model where the table has several.
        cell: Row and model; None for a cited system, which is not run here.
        published: Published values of the table's columns, by model: those of the row's own model, or where
            none are published for it, those of the others.
        planned: Number of planned runs.
        runs: Its finished runs.
        predictions: Test predictions of each run that has some.
        clean: Averages of these on the test pairs that occur in no public training set.
        intervals: Bootstrap intervals over test pairs, by column; none without predictions of all runs.
        stated: `STATED` and what it was ``trained on`` of each run, in words.
        differing: Data of which the papers have another number of examples, in words.
    """

    name: str
    cell: Cell | None
    published: dict[str, dict[str, float]]
    planned: int = 0
    runs: Group = field(default_factory=lambda: Group((), {}))
    predictions: list[Predictions] = field(default_factory=list)
    clean: list[float] = field(default_factory=list)
    intervals: dict[str, Interval] = field(default_factory=dict)
    stated: list[dict[str, str]] = field(default_factory=list)
    differing: set[str] = field(default_factory=set)

    def mean(self, column: str) -> float | None:
        """Return the mean of a column over the runs; for ``std``, their deviation by average, else by dev."""
        if column == "std":
            return self.runs.deviation("average") or self.runs.deviation("dev")
        return self.runs.mean("GB" if column == "memory" else column)

    def words(self, name: str) -> str:
        """Return what is stated of the runs, different values one after another."""
        return (", " if name == "seed" else " / ").join(dict.fromkeys(each[name] for each in self.stated))


@dataclass
class Collected:
    """A table with the results of its runs.

    Attributes:
        table: The table.
        columns: Names of the columns.
        systems: Rows.
        differences: Paired differences, by baseline, system and column.
        problems: Errors of files that could not be read.
    """

    table: Table
    columns: list[str] = field(default_factory=list)
    systems: list[System] = field(default_factory=list)
    differences: dict[str, dict[str, dict[str, Interval]]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @contextmanager
    def noting(self, what: str = "") -> Iterator[None]:
        """Note among the problems that something cannot be read."""
        try:
            yield
        except (CheckpointError, ValueError, OSError) as error:
            self.problems.append(f"{what}{error}")


def collect(table: Table, resamples: int = 1000) -> Collected:
    """Read the finished runs of a table; nothing is written.

    A broken file is reported among the problems, and its run counts as missing.

    Args:
        table: The table.
        resamples: Number of bootstrap resamples.
    """
    collected, spec = Collected(table), table.spec
    jobs, _ = table.jobs()
    collected.systems = [_system(collected, cell, jobs, resamples) for cell in table.cells]
    runs = [run for system in collected.systems for run in system.runs.runs]
    scored = dict.fromkeys(name for run in runs if run.metrics for name in run.metrics.scores)
    collected.columns = spec.columns or sorted(scored, key=lambda column: column != "dev")
    by_cell = {system.cell: system for system in collected.systems}
    for baseline in spec.baselines:
        differences = collected.differences[baseline] = {}
        for system in collected.systems:
            to = by_cell.get(Cell(baseline, system.cell and system.cell.model))
            if to is not None and to is not system and to.intervals and system.intervals:
                with collected.noting(f"{system.name} against {to.name}: "):
                    check_same_texts([run.folder for run in (*system.runs.runs, *to.runs.runs)])
                    found = paired_difference(system.predictions, to.predictions, resamples)
                    differences[system.name] = found
    for name, values in spec.published.get(CITED, {}).items():
        published = {"": dict(zip(spec.columns, values, strict=True))}
        collected.systems.append(System(name, None, published))
    return collected


def _system(collected: Collected, cell: Cell, jobs: Mapping[Run, Job], resamples: int) -> System:
    table, spec = collected.table, collected.table.spec
    published = {
        model: dict(zip(spec.columns, systems[cell.row], strict=True))
        for model, systems in spec.published.items()
        if model != CITED and cell.row in systems
    }
    if cell.model in published:
        published = {cell.model: published[cell.model]}
    several = table.scale is None and len(spec.models) > 1
    system = System(f"{cell.model}, {cell.row}" if several else cell.row, cell, published)
    runs = {jobs[run].folder: run for run in table.runs(cell)}
    read = [read_run(RunFolder(path)) for path in runs]
    collected.problems += [run.problem for run in read if run.problem]
    system.planned, system.runs = len(runs), Group([run for run in read if run.metrics is not None], {})
    for run in system.runs.runs:
        assert run.metrics is not None
        planned = runs[run.folder.path]
        trained = planned.start if planned.entry == "eval" else planned
        settings = None if trained is None else read_run(jobs[trained].run_folder).settings
        system.stated.append(_stated(run.metrics, settings))
        counts = filter(None, run.metrics.trained_on)
        system.differing |= {f"{each} ({each.reasons or each.source})" for each in counts if each.differs}
        if run.value("average") is not None and run.folder.predictions_file.is_file():
            with collected.noting():
                system.predictions.append(comparable_predictions(run.folder))
    averages = (leak_free_average(found, published_leaks()) for found in system.predictions)
    system.clean = [average for average in averages if average is not None]
    reported = sum(run.value("average") is not None for run in system.runs.runs)
    if len(system.predictions) == reported > 0:
        with collected.noting(f"{system.name}: "):
            system.intervals = score_intervals(system.predictions, resamples)
    elif system.predictions:
        text = f"{system.name}: predictions of {len(system.predictions)} of {reported} runs, so no intervals."
        collected.problems.append(text)
    return system


def _stated(metrics: RunMetrics, trained: Mapping[str, Any] | None) -> dict[str, str]:
    """Return what is stated of a run.

    Args:
        metrics: Its results.
        trained: Settings of the training that its weights come from, by dotted key; None: there was none.
    """
    details = metrics.details
    training = details.get("training", {})
    dev = select(trained or {}, {"dev"})
    chosen = ", ".join(f"{key}={value}" for key, value in dev.items() if value is not None)
    return {
        "evaluation": evaluation_text(details),
        "selected by": UNTRAINED if trained is None else chosen or UNKNOWN,
        "training": UNTRAINED if training is None else in_words(training, *MODEL_SETTINGS),
        "seed": UNTRAINED if training is None else str(details.get("seed", UNKNOWN)),
        "version": str(details.get("versions", {}).get("sts-lightning", UNKNOWN)),
        "trained on": ", then ".join(str(count or UNKNOWN) for count in metrics.trained_on) or UNTRAINED,
    }


def scores_frame(collected: Collected) -> pd.DataFrame:
    """Return the scores below the published ones, unrounded, with what is stated of the runs."""
    spec, columns = collected.table.spec, collected.columns
    main = compared_column(columns)  # what std and interval belong to
    rows: list[dict[str, Any]] = []
    for system in collected.systems:
        row: dict[str, Any] = {"": system.name, "row": RUNS if system.cell else CITED}
        for model, values in system.published.items():
            alone = model in ("", "published") or [model] == spec.models == [
                system.cell and system.cell.model
            ]
            source = "published" if alone else f"published, {model}"
            rows.append(row | {"source": source, "why": spec.why.get(system.name)} | values)
        if system.cell is None:
            continue
        row |= {"source": "here", "runs": f"{len(system.runs.runs)} of {system.planned}"}
        row |= {column: system.mean(column) for column in columns}
        if main is not None and "std" not in columns:
            row["std"] = system.runs.deviation("GB" if main == "memory" else main)
        if main in system.intervals:
            row |= {"low": system.intervals[main].low, "high": system.intervals[main].high}
        if system.clean:
            row[CLEAN] = statistics.mean(system.clean)
        rows.append(row | {name: system.words(name) for name in (*STATED, "trained on")})
    gold = next((system.predictions[0] for system in collected.systems if system.predictions), {})
    ceiling = resolve_name("sts_lightning.papers.ceiling:ceiling")
    ceilings = {task: ceiling(scores) for task, (_, scores) in of_pairs(gold).items()}
    if ceilings:
        rows.append({"": "binary ceiling", **ceilings, "average": statistics.mean(ceilings.values())})
    order = ["", "source", *columns, "std", "low", "high", CLEAN, "runs", "selected by", "trained on", "row"]
    order = list(dict.fromkeys([*order, *STATED, "why"]))
    frame = pd.DataFrame(rows, dtype=object)
    return frame.reindex(columns=[name for name in order if name in frame or name in columns])


def text_frames(collected: Collected) -> dict[str, pd.DataFrame]:
    """Return the tables as text, by heading: the scores, then the differences to each baseline."""
    frame, columns = scores_frame(collected), collected.columns
    here = frame["source"] == "here"
    frame.loc[here, columns] = frame.loc[here, columns].fillna(MISSING)
    left_out = [*(name for name in STATED if name != "selected by"), "high", "why"]
    if "low" in frame:
        frame["low"] = (frame["low"].map(_text) + " to " + frame["high"].map(_text)).replace(" to ", "")
    shown = frame.drop(columns=left_out, errors="ignore").rename(columns={"low": "interval"})
    other = any(system.differing for system in collected.systems)
    frames = {f"{collected.table.spec.title}{' (on other data than published)' if other else ''}": shown}
    for baseline, systems in collected.differences.items():
        rows = [{"": name, **row} for name, row in systems.items()]
        title = f"Difference to {baseline}, with paired bootstrap intervals (95 %) over test pairs"
        frames |= {title: pd.DataFrame(rows)} if rows else {}
    return {title: each.map(_text) for title, each in frames.items()}


def _text(value: Any) -> str:
    if isinstance(value, Interval):
        return f"{value}{' *' if value.low > 0 or value.high < 0 else ''}"
    return "" if pd.isna(value) else f"{value:.2f}" if isinstance(value, float) else str(value)


def notes(collected: Collected) -> list[str]:
    """Return the notes needed to read the table."""
    table, systems, text = collected.table, collected.systems, []
    main = compared_column(collected.columns)
    if table.scale is not None:
        what = "with shorter schedules: not the published models. Compare rankings with theirs, not values."
        text.append(f"Run at the scale of {table.scale}, {what}")
    elif table.spec.mixes:
        text.append(f"It mixes {table.spec.mixes}.")
    text.append(f"`here`: {'scores x 100, ' if 'average' in collected.columns else ''}mean over seeds.")
    if any(main in system.intervals for system in systems):
        text.append(f"`interval`: 95 % of {main}, bootstrap over test pairs.")
        text.append("`binary ceiling`: the best Spearman of a scorer with two values on each set.")
    text += setting_notes(systems)
    if any(system.clean for system in systems):
        what = f"the average on the test pairs that do not occur in {published_leaks().training}"
        text.append(f"`{CLEAN}`: {what}, not even nearly equal. It compares rows.")
    if cited := [f"{name} ({table.spec.why[name]})" for name in table.spec.published.get(CITED, {})]:
        text.append(f"Cited, not run: {'; '.join(cited)}.")
    differing = {system.name: "; ".join(sorted(system.differing)) for system in systems if system.differing}
    text += [f"On other data than published: {name}, {data}." for name, data in differing.items()]
    return text + [f"Left out: {problem}" for problem in dict.fromkeys(collected.problems)]


def setting_notes(systems: Sequence[System]) -> list[str]:
    """Return a sentence on each of `STATED`; values that differ come with the names of their rows."""
    text = []
    for name, words in STATED.items():
        rows: dict[str, list[str]] = {}
        for system in systems:
            if (value := system.words(name)) and (name, value) != ("selected by", UNTRAINED):
                rows.setdefault(value, []).append(system.name)
        if len(rows) == 1 and name != "version":
            text.append(f"{words}: {next(iter(rows))}.")
        elif len(rows) > 1:
            parts = [f"{value} ({'; '.join(names)})" for value, names in rows.items()]
            text.append(f"{words}, different between rows: {', or '.join(parts)}.")
    return text


def markdown(collected: Collected) -> str:
    """Return all tables and notes as Markdown."""
    parts = []
    for number, (title, frame) in enumerate(text_frames(collected).items()):
        rule = ["---"] * (1 if number else 2)
        rule += ["---:"] * (len(frame.columns) - len(rule))
        lines = [list(frame.columns), rule, *frame.to_numpy().tolist()]
        parts.append(f"{one_line(title)}:" if number else f"### {one_line(title)}")
        parts.append("\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines))
        if number == 0:
            parts.append("\n".join(f"- {one_line(note)}" for note in notes(collected)))
    return "\n\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return one_line(text).replace("|", "\\|").replace("`", "\\`")


def latex(collected: Collected) -> str:
    """Return a ``tabular`` of booktabs for each table, below its heading and notes in comments."""
    parts = [f"% {' '.join(note.split())}" for note in setting_notes(collected.systems)]
    for title, frame in text_frames(collected).items():
        parts += [f"% {' '.join(title.split())}", frame.to_latex(index=False, escape=True)]
    return "\n".join(parts)


def write_report(table: Table, resamples: int) -> str:
    """Print a table and write it as Markdown, LaTeX and CSV below the folder of its runs.

    Args:
        table: Table to report.
        resamples: Number of bootstrap resamples.

    Returns:
        The table as Markdown.
    """
    collected = collect(table, resamples)
    path = table.root / "tables" / (table.name if table.scale is None else f"{table.name}_{table.scale}")
    path.parent.mkdir(parents=True, exist_ok=True)
    text = markdown(collected)
    Console().print(text, markup=False, soft_wrap=True)
    unrounded = scores_frame(collected).rename(columns={"": "system"}).to_csv(index=False)
    for suffix, content in (("md", text), ("tex", latex(collected)), ("csv", unrounded)):
        write_atomic(path.with_name(f"{path.name}.{suffix}"), content)
    log.info("%s", f"{path}.{{md,tex,csv}}")
    return text


def one_line(text: str) -> str:
    """Return text on one line in which Markdown finds no HTML and no links; `backticks` remain code."""
    line = " ".join(text.splitlines()).replace("\\", "\\\\")
    return re.sub(r"&(?=#?\w+;)", "&amp;", line).replace("<", "&lt;").replace("](", "]\\(")
