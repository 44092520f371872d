"""Listing, planning and running tables."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hydra.utils import instantiate

from sts_lightning.config.check import path_override
from sts_lightning.config.compose import compose_job
from sts_lightning.config.folders import Entry, command_line, files_of
from sts_lightning.core.console import print_line
from sts_lightning.core.errors import ConfigError, FailedJobsError, RunningElsewhereError, UserError, counted
from sts_lightning.reproduce.table import CITED, RUNS, Table, load_spec
from sts_lightning.sweep.gpu_pool import visible_gpus
from sts_lightning.sweep.grid import ComposedJob, naming_job
from sts_lightning.sweep.job import Job
from sts_lightning.sweep.plan import print_run

log = logging.getLogger(__name__)

RunJobs = Callable[[Sequence[Job]], None]
"""Function that runs jobs and stores the outcome in each; raises `FailedJobsError` if some failed."""


def reproduce(table: Table, launcher: str, settings: Sequence[str], resamples: int) -> None:
    """Run what is left of a table, and report it.

    Args:
        table: The table.
        launcher: See `open_launcher`.
        settings: See `open_launcher`.
        resamples: Number of bootstrap resamples.

    Raises:
        ConfigError: The runs need GPUs and none is visible, or a setting is unknown.
        InterruptedRunError: The user stopped the runs.
        UserError: Some have not finished.
    """
    run_jobs = open_launcher(table, launcher, settings)
    _, grid = table.jobs()
    jobs = [each.job for each in grid.jobs.values()]
    left = [job for job in jobs if not job.run_folder.finished]
    if launcher == "process" and any(job.demand.required for job in left) and not visible_gpus():
        raise ConfigError(
            f"each run of this table needs {table.spec.needs}, and no GPU is visible. --model minilm "
            "runs the same rows at a small scale, and `reproduce plan` shows the runs."
        )
    try:
        run_jobs(left)
    except (FailedJobsError, RunningElsewhereError) as error:
        log.error("%s", error)
    from sts_lightning.reproduce.results import write_report  # pandas and SciPy, for which no run waits

    write_report(table, resamples)
    if not all(job.run_folder.finished for job in jobs):
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
    with naming_job(overrides, f"--launcher {name}"):
        cfg = compose_job("train", overrides)
        launcher: Any = instantiate(cfg.hydra.launcher)
    launcher.config = cfg
    run_jobs: RunJobs = launcher.run_jobs
    return run_jobs


def list_tables() -> None:
    """Print the tables with their runs, requirements and rows, run or cited."""
    for name in files_of("reproduce"):
        spec = load_spec(name)
        runs = counted(len(Table(name, spec, Path("runs")).all_runs()), "run")
        of = f" of {', '.join(spec.models)}" if spec.models else ""
        shown = "; ".join(name for name, row in spec.rows.items() if row.shown)
        cited = (f"{CITED}: {name} ({spec.why[name]})" for name in spec.published.get(CITED, {}))
        print_line(f"{name:22}{spec.title}")
        for line in (f"{runs}{of}; each: {spec.needs}", f"{RUNS}: {shown}", *cited):
            print_line(f"{'':22}{line}", style="dim")
    print_line(
        "\nsts-lightning reproduce plan TABLE shows the runs, --model MODEL has the rows at a small "
        f"scale ({', '.join(files_of('scale'))}). examples/paper_figures.py draws the papers' figures.\n"
    )


def print_plan(table: Table, at_once: int | None, card: str | None) -> None:
    """Print every run of a table with its state, then the cost of those of each row and the time of all.

    Args:
        table: Table to plan.
        at_once: Number of jobs at a time; None: one.
        card: Card to plan for, by name or memory; None: this machine's.

    Raises:
        ConfigError: The card is not known.
    """
    by_run, grid = table.jobs()
    jobs = [each.job for each in grid.jobs.values()]
    for job in jobs:
        entry: Entry = "train" if Path(job.script).stem == "train" else "eval"
        print_run(job.run_folder, command_line(entry, *job.overrides))
    from sts_lightning.planning.cost import Cost, print_costs  # torch, for which the list does not wait

    rows: dict[str, list[ComposedJob]] = {}
    for run, job in by_run.items():
        if run.entry == "train":
            rows.setdefault(command_line("train", *run.without_seed), []).append(grid.jobs[job.folder])
    costs = print_costs(((row, composed[0].cfg) for row, composed in rows.items()), card)
    known = [each.seconds for each in costs if isinstance(each, Cost) and each.seconds is not None]
    left = [sum(not each.job.run_folder.finished for each in row) for row in rows.values()]
    text = f"{counted(len(jobs), 'run')}, {sum(not job.run_folder.finished for job in jobs)} left"
    if len(known) == len(rows):
        hours = sum(seconds * count for seconds, count in zip(known, left, strict=True)) / 3600
        text += f"; trainings: about {hours / (at_once or 1):.1f} hours, {at_once or 1} at a time"
    print_line(f"{text}." + ("" if table.scale else f" Each needs: {table.spec.needs}."))
