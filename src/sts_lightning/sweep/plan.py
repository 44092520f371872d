"""The jobs of a sweep checked and printed, instead of started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from omegaconf import DictConfig

from sts_lightning.config.compose import job_config
from sts_lightning.core.console import print_line
from sts_lightning.core.errors import FailedJobsError, UserError, counted
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.lock import is_locked
from sts_lightning.sweep.grid import ComposedJob
from sts_lightning.sweep.overview import common


def print_plan(jobs: Sequence[ComposedJob], card: str | None = None) -> None:
    """Check all jobs of a sweep and print them; nothing is started or written.

    Args:
        jobs: Jobs, each after those that it needs.
        card: Card to plan for, by name or memory; None: this machine's.

    Raises:
        FailedJobsError: Some jobs cannot work; the message says which, and why.
    """
    from sts_lightning.planning.cost import print_costs  # with torch, for which other lists do not wait
    from sts_lightning.workflows.preflight import check_later_run

    known: dict[str, Any] = {}
    shared = common([item.job for item in jobs])
    problems: list[str] = []
    lacking: Counter[str | None] = Counter()
    states: Counter[str] = Counter()

    def checked() -> Iterator[tuple[str, DictConfig]]:
        for item in jobs:
            run, title = item.job.run_folder, item.job.title(shared)
            with job_config(item.composed):
                try:
                    lacking[None if run.finished else check_later_run(run, item.cfg, known)] += 1
                except UserError as error:
                    problems.append(f"{run.path.name} ({title}): {error}")
                start = f", starts from {item.job.needs[-1].name}" if item.job.needs else ""
                states[print_run(run, f"{title} ({item.job.demand}{start})")] += 1
                yield "", item.cfg

    print_costs(checked(), card, known)
    for text in filter(None, lacking):
        print_line(f"{lacking[text]} of these jobs cannot run on this machine: {text}")
    counts = ", ".join(f"{count} {state}" for state, count in states.items())
    print_line(f"{counted(len(jobs), 'job')}: {counts}. Nothing was started.")
    if problems:
        lines = "".join(f"\n  {problem}" for problem in problems)
        raise FailedJobsError(f"{len(problems)} of {len(jobs)} jobs would fail:{lines}")


def print_run(run: RunFolder, text: str) -> str:
    """Print a run, and return its state: done, running, resumable or new."""
    state = {"finished": "done", "interrupted": "resumable"}.get(run.state, "new")
    if state != "done" and is_locked(run.path):
        state = "running"
    print_line(f"{state:9} {run.path}  {text}")
    return state
