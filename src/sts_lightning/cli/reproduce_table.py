"""Steps of `sts-lightning reproduce`: list tables, print plans, run them, write reports."""

from __future__ import annotations

import contextlib
import logging
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console

from sts_lightning.conf_folders import files_of
from sts_lightning.errors import CheckpointError, ConfigError
from sts_lightning.files import write_atomic
from sts_lightning.reproduce.configs import train_configs
from sts_lightning.reproduce.evaluated import evaluated_again
from sts_lightning.reproduce.launch import open_launcher
from sts_lightning.reproduce.plan import Planned, Table
from sts_lightning.reproduce.run import RunJobs, groups, run_table
from sts_lightning.reproduce.spec import (
    CITED,
    RUNS,
    Requirements,
    TableSpec,
    load_scale,
    load_spec,
    spec_file,
)
from sts_lightning.runs.folder import RunFolder
from sts_lightning.sweep.plan import Cost
from sts_lightning.text import counted

log = logging.getLogger(__name__)

RECORDS = Path("docs/results")
"""Folder of the records of tables."""


def open_table(name: str, model: str | None, root: Path, evaluate: Sequence[str] = ()) -> Table:
    """Load the plan of a table.

    Args:
        name: Name of a file in conf/reproduce, without .yaml.
        model: Name of a file in conf/reproduce/scale, to run the rows with that model; None: with their own.
        root: Folder of the runs.
        evaluate: Overrides of eval.py with which the trained rows are evaluated again; if empty, their own
            scores are reported.

    Raises:
        ConfigError: There is no such file, or it is invalid.
    """
    spec = load_spec(spec_file("table", name))
    if evaluate:
        spec = evaluated_again(spec, evaluate)
    scale = None if model is None else load_scale(spec_file("scale", model))
    return Table(spec, root, model, scale)


def list_tables() -> None:
    """Print the tables with their runs, requirements and rows, run or cited."""
    console = Console()
    for name, path in files_of("reproduce").items():
        spec = load_spec(path)
        cells = Table(spec, Path("runs")).cells
        count = sum(len(spec.seeds) if spec.rows[cell.row].trains else 1 for cell in cells)
        of = f" of {', '.join(spec.models)}" if spec.models else ""
        console.print(f"{name:22}{spec.title}", markup=False, highlight=False, soft_wrap=True)
        runs = f"{counted(count, 'run')}{of}; each: {_needs(spec.needs)}"
        what = runs if count else "published values only"
        for line in (what, *_marks(spec)):
            console.print(f"{'':22}{line}", style="dim", markup=False, highlight=False, soft_wrap=True)
    scales = ", ".join(files_of("reproduce/scale"))
    console.print(
        "\nsts-lightning reproduce plan TABLE shows the runs, --model MODEL runs the rows at a small scale "
        f"({scales}).\n",
        soft_wrap=True,
    )


def _marks(spec: TableSpec) -> list[str]:
    """Return the rows that run, then those that are cited, each with the reason."""
    runs = [name for name, row in spec.rows.items() if row.shown]
    cited = [f"{CITED}: {name} ({spec.why[name]})" for name in spec.published.get(CITED, {})]
    return [*([f"{RUNS}: {'; '.join(runs)}"] if runs else []), *cited]


def _needs(needs: Requirements) -> str:
    gpus = f"{needs.gpus} GPU{'s' * (needs.gpus > 1)} with {needs.memory} GB, " if needs.gpus else "no GPU, "
    hours = needs.hours
    return gpus + (f"{hours:g} h" if hours >= 1 else f"{60 * hours:.0f} min")


def print_plan(table: Table, jobs: int | None, cost: Cost | None = None) -> None:
    """Print every run of a table with its state, and an estimate of the remaining time.

    Args:
        table: Table to plan.
        jobs: Number of jobs at a time; None: one.
        cost: Function that says what a run costs; None: costs are not printed.
    """
    console = Console()
    planned = list({run.folder: run for group, _ in groups(table) for run in group}.values())
    for run in planned:
        console.print(
            f"{_state(run):9} {run.folder}  {run.command}",
            markup=False,
            soft_wrap=True,
        )
        if cost is not None and run.entry == "train":
            for name, cfg in train_configs(run.overrides).items():
                text = f"{name}: {cost(cfg)}" if name else cost(cfg)
                console.print(f"{'':10}{text}", style="dim", markup=False, highlight=False, soft_wrap=True)
    left = sum(not run.done for run in planned)
    hours, source = _hours(table, planned)
    at_once = 1 if jobs is None else jobs
    console.print(
        f"{counted(len(planned), 'run')}, {left} left; about {left * hours / at_once:.1f} hours, "
        f"{at_once} at a time ({60 * hours:.0f} minutes each, {source}). "
        f"Each needs: {_needs(_needed(table))}.",
        soft_wrap=True,
    )
    if any(table.search_runs(cell) for cell in table.cells):
        console.print("Rows with a choice by dev score show their runs once that choice is made.")


def _state(run: Planned) -> str:
    return {"finished": "done", "cut": "cut"}.get(RunFolder(run.folder).state, "to do")


def _hours(table: Table, planned: Iterable[Planned]) -> tuple[float, str]:
    """Return the hours of a run, measured if some have finished, else estimated, and their source."""
    seconds: list[float | None] = []
    for run in planned:
        if run.done:
            with contextlib.suppress(CheckpointError):  # collecting names it
                seconds.append(RunFolder(run.folder).metrics().wall_seconds)
    known = [value for value in seconds if value is not None]
    if known:
        return statistics.mean(known) / 3600, f"as {counted(len(known), 'finished run')} took"
    return table.hours, "a guess"


def _needed(table: Table) -> Requirements:
    return table.spec.needs if table.scale is None else Requirements(hours=table.scale.hours)


def reproduce(table: Table, jobs: int | None, launcher: str, settings: Sequence[str]) -> bool:
    """Run the remaining runs of a table and return whether all of them have finished.

    Args:
        table: Table to run.
        jobs: Number of jobs at a time; None: as many as the launcher can run.
        launcher: ``process`` for this machine, ``slurm`` or ``ray``.
        settings: Settings of the launcher, such as ``partition=gpu``.

    Raises:
        ConfigError: The runs need GPUs and none is visible, or a setting is unknown.
        InterruptedRunError: The user stopped the runs.
    """
    needs = _needed(table)
    if (
        launcher == "process"
        and needs.gpus
        and all(not run.done for group, _ in groups(table) for run in group)
    ):
        import torch  # not needed for a report

        if not torch.cuda.is_available():
            raise ConfigError(
                f"each run of this table needs {_needs(needs)}, and no GPU is visible. --model minilm runs "
                "the same rows at a small scale, sts-lightning reproduce plan shows the runs."
            )
    return run_table(table, find_launcher(table, jobs, launcher, settings))


def find_launcher(table: Table, jobs: int | None, launcher: str, settings: Sequence[str]) -> RunJobs:
    """Return the function that runs the jobs of a table.

    Args:
        table: The table.
        jobs: See `reproduce`.
        launcher: See `reproduce`.
        settings: See `reproduce`.

    Raises:
        ConfigError: A setting is unknown.
    """
    given = [*settings] if jobs is None else [f"jobs={jobs}", *settings]
    return open_launcher(launcher, given, table.root)


def write_state(path: Path | None) -> None:
    """Print, or write, the page on the state of every table and figure of the papers.

    Args:
        path: File to write; None to print.

    Raises:
        ConfigError: There are no records here.
    """
    from sts_lightning.reproduce.progress import state_page

    if not RECORDS.is_dir():
        raise ConfigError(
            f"there are no records of finished runs here ({RECORDS}): no table would seem to have run.",
            hint="Run this in a checkout, or keep records with --record.",
        )
    page = state_page(RECORDS)
    if path is None:
        Console().print(page, markup=False, highlight=False, soft_wrap=True, end="")
    else:
        write_atomic(path, page)


def write_report(
    table: Table, name: str, resamples: int, evaluate: Sequence[str] = (), record: bool = False
) -> str:
    """Print a table and write it as Markdown, LaTeX, CSV and HTML below the folder of its runs.

    Args:
        table: Table to report.
        name: Name of its file.
        resamples: Number of bootstrap resamples.
        evaluate: Overrides of `open_table`.
        record: Whether to write the scores to `RECORDS` too.

    Returns:
        The table as Markdown.
    """
    # Lists and plans do not wait for these imports.
    from sts_lightning.reproduce.collect import collect
    from sts_lightning.reproduce.formats import csv_text, latex, markdown
    from sts_lightning.reproduce.page import page

    collected = collect(table, resamples)
    folder = table.root / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    stem = "_".join(
        [name, *([] if table.model is None else [table.model]), *(["evaluated"] if evaluate else [])]
    )
    text = markdown(collected)
    Console().print(text, markup=False, soft_wrap=True)
    made = f"sts-lightning reproduce {name}" + ("" if table.model is None else f" --model {table.model}")
    made += f" --evaluate {' '.join(evaluate)}" if evaluate else ""
    for suffix, content in (
        ("md", text),
        ("tex", latex(collected)),
        ("csv", csv_text(collected)),
        ("html", page(collected, made)),
    ):
        write_atomic(folder / f"{stem}.{suffix}", content)
    if record:
        from sts_lightning.reproduce.record import record_of, update_record

        RECORDS.mkdir(parents=True, exist_ok=True)
        update_record(RECORDS / f"{stem}.json", record_of(collected, name, evaluate))
    log.info("%s", folder / f"{stem}.{{md,tex,csv,html}}")
    return text
