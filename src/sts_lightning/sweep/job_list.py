"""The jobs of a sweep checked and printed, instead of started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from omegaconf import DictConfig

from sts_lightning.config.compose import job_config
from sts_lightning.core.console import print_line
from sts_lightning.core.errors import FailedJobsError, UserError, counted
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.lock import is_locked
from sts_lightning.sweep.grid import ComposedJob
from sts_lightning.sweep.job import Demand
from sts_lightning.sweep.overview import common

Check = Callable[[RunFolder, DictConfig], str | None]
"""Function that raises `UserError` for a run that cannot work, and returns what this machine lacks for it."""


def print_plan(
    jobs: Sequence[ComposedJob],
    check: Check,
    card: str | None = None,
    gpus_per_job: int | None = None,
    jobs_per_gpu: int = 1,
) -> None:
    """Check all jobs of a sweep and print them; nothing is started or written.

    Args:
        jobs: Jobs, each after those that it needs.
        check: Function that checks a run.
        card: Card to plan for, by name or memory; None: this machine's.
        gpus_per_job: Number of GPUs of each job that uses any; None: the demand of the job decides.
        jobs_per_gpu: Number of jobs that share a GPU.

    Raises:
        FailedJobsError: Some jobs cannot work; the message says which, and why.
    """
    shared = common([item.job for item in jobs])
    problems: list[str] = []
    lacking: Counter[str] = Counter()
    states: Counter[str] = Counter()

    def checked() -> Iterator[tuple[str, DictConfig]]:
        for item in jobs:
            job, title = item.job, item.job.title(shared)
            if not job.run_folder.finished:
                try:
                    lacking.update(check_job(item, check))
                except UserError as error:
                    problems.append(f"{job.folder.name} ({title}): {error}")
            start = f", starts from {job.needs[-1].name}" if job.needs else ""
            text = f"{title} ({_gpus(job.demand, gpus_per_job, jobs_per_gpu)}{start})"
            states[print_run(job.run_folder, text)] += 1
            with job_config(item.composed):
                yield "", item.cfg

    from sts_lightning.planning.plan import print_plans  # with torch, for which other lists do not wait

    print_plans(checked(), card)
    for text, count in lacking.items():
        print_line(f"{count} of these jobs cannot run on this machine: {text}")
    counts = ", ".join(f"{count} {state}" for state, count in states.items())
    print_line(f"{counted(len(jobs), 'job')}: {counts}. Nothing was started.")
    if problems:
        lines = "".join(f"\n  {problem}" for problem in problems)
        raise FailedJobsError(f"{len(problems)} of {len(jobs)} jobs would fail:{lines}")


def check_job(composed: ComposedJob, check: Check) -> set[str]:
    """Check the run of a job, and return what this machine lacks for it.

    Raises:
        UserError: It cannot work.
    """
    with job_config(composed.composed):
        lacks = check(composed.job.run_folder, composed.cfg)
    return set() if lacks is None else {lacks}


def print_run(run: RunFolder, text: str) -> str:
    """Print a run, and return its state: done, running, resumable or new."""
    state = "done" if run.finished else "resumable" if run.resumable else "new"
    if state != "done" and is_locked(run.path):
        state = "running"
    print_line(f"{state:9} {run.path}  {text}")
    return state


def _gpus(demand: Demand, per_job: int | None, sharing: int) -> str:
    count = per_job if per_job is not None and demand.gpus else demand.gpus
    if not count:
        return "no GPU"
    text = "all GPUs" if count == -1 else counted(count, "GPU")
    text = text if demand.required else f"{text} if any"
    return f"{text}, {sharing} jobs on each" if sharing > 1 else text
