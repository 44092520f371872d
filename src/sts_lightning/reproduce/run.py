"""Running a table, in the order of its dependencies."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hydra.errors import HydraException
from hydra.utils import instantiate
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.check import path_override
from sts_lightning.config.compose import compose_job, compose_train, explain
from sts_lightning.core.conf_folders import command_line, files_of
from sts_lightning.core.console import print_line
from sts_lightning.core.errors import (
    CheckpointError,
    ConfigError,
    FailedJobsError,
    RunningElsewhereError,
    UserError,
)
from sts_lightning.core.text import counted
from sts_lightning.reproduce.plan import VARYING, Table, TableRun, open_table
from sts_lightning.reproduce.spec import CITED, RUNS, load_spec
from sts_lightning.runs.folder import RunFolder
from sts_lightning.sweep.job import Job
from sts_lightning.sweep.job_list import print_run

log = logging.getLogger(__name__)

RunJobs = Callable[[Sequence[Job]], None]
"""Function that runs jobs and stores the outcome in each; raises `FailedJobsError` if some failed."""


def reproduce(
    name: str, model: str | None, root: Path, launcher: str, settings: Sequence[str], resamples: int
) -> None:
    """Run what is left of a table, and report it.

    Args:
        name: See `open_table`.
        model: See `open_table`.
        root: See `open_table`.
        launcher: See `open_launcher`.
        settings: See `open_launcher`.
        resamples: Number of bootstrap resamples.

    Raises:
        ConfigError: The runs need GPUs and none is visible, or a setting is unknown.
        InterruptedRunError: The user stopped the runs.
        UserError: Some have not finished.
    """
    table = open_table(name, model, root)
    begun = any(run.run_folder.finished for group, _ in groups(table) for run in group)
    if launcher == "process" and table.needs.gpus and not begun:
        import torch  # not needed for a report

        if not torch.cuda.is_available():
            raise ConfigError(
                f"each run of this table needs {table.needs.hardware}, and no GPU is visible. "
                "--model minilm runs the same rows at a small scale, and `reproduce plan` in place of "
                "`reproduce` shows the runs."
            )
    finished = run_table(table, open_launcher(table, launcher, settings))
    from sts_lightning.reproduce.tables import write_report  # pandas and SciPy, for which no run waits

    write_report(table, name, resamples)
    if not finished:
        raise UserError(
            "some runs have not finished; the messages above name them.", hint="The same command continues."
        )


def open_launcher(table: Table, name: str, settings: Sequence[str]) -> RunJobs:
    """Return a function that runs jobs as ``hydra/launcher=name`` does in a sweep.

    Args:
        table: Table whose folder is that of the launcher's own files too.
        name: ``process`` for this machine, ``slurm`` or ``ray``.
        settings: Settings of the launcher, such as ``partition=gpu``.

    Raises:
        ConfigError: The launcher or a setting does not exist.
    """
    overrides = (
        f"hydra/launcher={name}",
        path_override("hydra.sweep.dir", table.root),
        *(f"hydra.launcher.{setting}" for setting in settings),
    )
    try:
        cfg = compose_job("train", overrides)
        launcher: Any = instantiate(cfg.hydra.launcher)
    except (HydraException, OmegaConfBaseException) as error:
        cause = explain(error, "train", overrides)
        raise ConfigError(f"--launcher {name}: {cause}", key=cause.key) from error
    launcher.config = cfg
    run_jobs: RunJobs = launcher.run_jobs
    return run_jobs


def run_table(table: Table, run_jobs: RunJobs) -> bool:
    """Run what has not finished yet; an interrupted run resumes from its last checkpoint.

    A failed run is reported at once. Runs that start from it are skipped; the others continue.

    Args:
        table: The table.
        run_jobs: Function that runs jobs, such as that of a launcher.

    Returns:
        Whether all runs have finished.
    """
    finished = []
    for group, skipped in groups(table):  # all groups, even if one fails
        for reason in skipped:
            log.error("%s", reason)
        finished.append(_run_group(group, run_jobs))
    return all(finished)


def groups(table: Table) -> Iterator[tuple[list[TableRun], list[str]]]:
    """Yield the runs in groups, each composed once the earlier ones have run.

    With them come the reasons why rows are skipped: the search that chooses for them has not finished.
    """
    yield table.preparations(), []
    for cells in table.levels():
        yield [run for cell in cells for run in table.search_runs(cell).values()], []
        trained, reported, skipped = [], [], []
        for cell in cells:
            try:
                trained += table.trained_runs(cell)
                reported += table.seed_runs(cell)
            except CheckpointError as error:
                skipped.append(f"{cell.row} is skipped: {error}")
        yield trained, skipped
        # Where the trainings themselves are reported, one that failed is not run a second time.
        ran = {run.folder for run in trained}
        yield [run for run in reported if run.folder not in ran], []


def _run_group(group: Iterable[TableRun], run_jobs: RunJobs) -> bool:
    runs = list({run.folder: run for run in group if not run.run_folder.finished}.values())
    ready = [run for run in runs if run.after is None or RunFolder(run.after).finished]
    for run in runs:
        if run not in ready:
            log.error("skipped: %s, since %s has not finished", " ".join(run.overrides), run.after)
    if not ready:
        return not runs
    try:
        run_jobs([dataclasses.replace(run, number=number) for number, run in enumerate(ready)])
    except (FailedJobsError, RunningElsewhereError) as error:
        log.error("%s", error)
        return False
    return all(run.run_folder.finished for run in runs)


def list_tables() -> None:
    """Print the tables with their runs, requirements and rows, run or cited."""
    for name, path in files_of("reproduce").items():
        spec = load_spec(path)
        count = Table(spec, Path("runs")).count()
        of = f" of {', '.join(spec.models)}" if spec.models else ""
        runs = f"{counted(count, 'run')}{of}; each: {spec.needs}"
        shown = "; ".join(name for name, row in spec.rows.items() if row.shown)
        cited = (f"{CITED}: {name} ({spec.why[name]})" for name in spec.published.get(CITED, {}))
        print_entry(name, spec.title, (runs, f"{RUNS}: {shown}", *cited))
    scales = ", ".join(files_of("reproduce/scale"))
    print_line(
        "\nsts-lightning reproduce plan TABLE shows the runs, --model MODEL has the rows at a small "
        f"scale ({scales}).\n"
    )


def print_entry(name: str, title: str, lines: Iterable[str]) -> None:
    """Print a table or figure in a list: its name and title, and lines below."""
    print_line(f"{name:22}{title}")
    for line in lines:
        print_line(f"{'':22}{line}", style="dim")


def print_plan(table: Table, jobs: int | None, gpu: str | None) -> None:
    """Print every run of a table with its state, then the cost of those of each row and the time of all.

    Args:
        table: Table to plan.
        jobs: Number of jobs at a time; None: one.
        gpu: GPU to plan for, by name or memory; None: this machine's.

    Raises:
        ConfigError: The GPU is not known.
    """
    runs: dict[Path, TableRun] = {}
    for run in _composed(table):
        if runs.setdefault(run.folder, run) is run:
            print_run(run.run_folder, command_line(run.entry, *run.overrides, *run.added))
    from sts_lightning.planning.plan import Plan, print_plans  # with torch, for which the list does not wait

    rows = [  # the runs of a row cost the same
        tuple(text for text in run.overrides if text.partition("=")[0] not in VARYING)
        for run in runs.values()
        if run.entry == "train"
    ]
    stages = [(row, name, cfg) for row in dict.fromkeys(rows) for name, cfg in compose_train(row).items()]
    titles = [
        command_line("train", *row) + ("" if name == "run" else f" ({name})") for row, name, _ in stages
    ]
    found = print_plans(zip(titles, [cfg for _, _, cfg in stages], strict=True), gpu)
    hours: dict[tuple[str, ...], float | None] = dict.fromkeys(rows, 0.0)
    for (row, _, _), each in zip(stages, found, strict=True):
        seconds, before = each.seconds if isinstance(each, Plan) else None, hours[row]
        hours[row] = None if seconds is None or before is None else before + seconds / 3600
    left = []
    for run in runs.values():
        if not run.run_folder.finished:
            fixed = tuple(text for text in run.overrides if text.partition("=")[0] not in VARYING)
            planned = hours.get(fixed)
            left.append(run.hours if planned is None else planned)
    together = sum(left) / (jobs or 1)
    print_line(
        f"{counted(len(runs), 'run')}, {len(left)} left; about {together:.1f} hours, {jobs or 1} at a time. "
        f"Each needs: {table.needs.hardware}."
    )
    if any(table.search_runs(cell) for cell in table.cells):
        print_line("Rows with a choice by dev score show their runs once that choice is made.")


def _composed(table: Table) -> Iterator[TableRun]:
    """Yield the runs as they are composed, without those that wait for a choice."""
    yield from table.preparations()
    for cells in table.levels():
        for cell in cells:
            yield from table.search_runs(cell).values()
        for cell in cells:
            with suppress(CheckpointError):
                yield from table.trained_runs(cell)
                yield from table.seed_runs(cell)
