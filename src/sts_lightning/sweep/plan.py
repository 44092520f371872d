"""The jobs of a sweep checked and printed, instead of started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from omegaconf import DictConfig, open_dict
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sts_lightning.errors import FailedJobsError, UserError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.lock import is_locked
from sts_lightning.sweep.grid import Planned
from sts_lightning.sweep.job import Demand, Job, job_config
from sts_lightning.sweep.overview import common
from sts_lightning.text import counted

Check = Callable[[RunFolder, DictConfig], str | None]
"""Function that raises `UserError` for a run that cannot work, and returns what this machine lacks for it."""

Cost = Callable[[DictConfig], str]
"""Function that says in a few words what a run of a configuration costs."""


def print_plan(
    planned: Sequence[Planned], check: Check, cost: Cost | None = None, gpus_per_job: int | None = None
) -> None:
    """Check all jobs of a sweep and print them; nothing is started or written.

    Args:
        planned: Jobs, shared stages before the jobs that need them.
        check: Function that checks a run.
        cost: Function that fills the column of costs; None: no such column.
        gpus_per_job: Number of GPUs of each job that uses any; None: the demand of the job decides.

    Raises:
        FailedJobsError: Some jobs cannot work; the message says which, and why.
    """
    shared = _shared(planned)
    problems: list[str] = []
    lacking: Counter[str] = Counter()
    for one in planned:
        if not one.job.run_folder.finished:
            try:
                lacking.update(check_job(one, check))
            except UserError as error:
                problems.append(f"{one.job.folder.name} ({one.job.title(shared)}): {error}")
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    console.print(plan_table(planned, cost, gpus_per_job))
    for text, count in lacking.items():
        console.print(
            f"{count} of these jobs cannot run on this machine: {text}", soft_wrap=True, markup=False
        )
    console.print("Nothing was started.", soft_wrap=True)
    if problems:
        lines = "".join(f"\n  {problem}" for problem in problems)
        raise FailedJobsError(f"{len(problems)} of {len(planned)} jobs would fail:{lines}")


def check_job(planned: Planned, check: Check) -> set[str]:
    """Check the runs that a job consists of.

    Args:
        planned: The job.
        check: Function that checks a run.

    Returns:
        What this machine lacks for them.

    Raises:
        UserError: One of them cannot work.
    """
    job, lacking = planned.job, set()
    start = job.needs[-1] if job.needs else None
    with job_config(planned.composed):
        for name, cfg in planned.configs.items():
            alone = not name or job.stage is not None
            run = job.run_folder if alone else job.run_folder.stage(name)
            with open_dict(cfg):
                cfg.init_from = cfg.init_from if start is None else str(start)
            lacking.add(check(run, cfg))
            start = run.path
    return {text for text in lacking if text is not None}


def plan_table(
    planned: Sequence[Planned], cost: Cost | None = None, gpus_per_job: int | None = None
) -> Table:
    """Return a table with one row for each job; its title counts them.

    Args:
        planned: Jobs, shared stages before the jobs that need them.
        cost: Function that fills the column of costs; None: no such column.
        gpus_per_job: Number of GPUs of each job that uses any; None: the demand of the job decides.
    """
    jobs = [one.job for one in planned]
    states = {id(job): progress(job) for job in jobs}
    stages = sum(job.stage is not None for job in jobs)
    what = (
        f"{counted(stages, 'shared stage')}, {counted(len(jobs) - stages, 'job')}"
        if stages
        else counted(len(jobs), "job")
    )
    counts = ", ".join(f"{count} {state}" for state, count in Counter(states.values()).items())
    table = Table(title=f"{what}: {counts}", title_justify="left")
    for heading in ("name", "job", "starts from", "state", "GPUs", *(["cost"] if cost else [])):
        table.add_column(heading, overflow="fold")
    shared = _shared(planned)
    for one, job in zip(planned, jobs, strict=True):
        spent = [] if cost is None else [" + ".join(cost(cfg) for cfg in one.configs.values())]
        start = job.needs[-1].name if job.needs else ""
        gpus = _gpus(job.demand, gpus_per_job)
        table.add_row(job.folder.name, escape(job.title(shared)), start, states[id(job)], gpus, *spent)
    return table


def progress(job: Job) -> str:
    """Return ``done``, ``running``, ``resumable`` or ``new``."""
    run = job.run_folder
    if run.finished:
        return "done"
    if is_locked(run.path):
        return "running"
    return "resumable" if run.resumable else "new"


def _shared(planned: Sequence[Planned]) -> set[str]:
    """Return the overrides that all jobs have."""
    return common([one.job for one in planned if one.job.stage is None])


def _gpus(demand: Demand, per_job: int | None) -> str:
    count = per_job if per_job is not None and demand.gpus else demand.gpus
    if not count:
        return "none"
    text = "all" if count == -1 else str(count)
    return text if demand.required else f"{text} if any"
