"""Where the jobs of a sweep stand, in a terminal."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table

from sts_lightning.errors import FailedJobsError, InterruptedRunError
from sts_lightning.interrupts import signal_name, stopping_signal
from sts_lightning.runs.folder import RunFolder
from sts_lightning.sweep.job import Job

log = logging.getLogger(__name__)

UNFINISHED = ("failed", "timed out", "stopped")
"""States of a job that the sweep has run without getting a result."""


def report_job(job: Job) -> None:
    """Say what became of a job."""
    message = f"{job.state}: {' '.join(job.overrides)}"
    if job.state in UNFINISHED:
        log.error("%s\n  %s; see %s", message, job.problem, RunFolder(job.folder).output_file)
    else:
        log.info("%s%s", message, "" if job.score is None else f" ({job.score:.2f})")


def conclude(jobs: Sequence[Job], workers: int, begin: float) -> None:
    """Print what became of all jobs.

    Raises:
        FailedJobsError: Some failed; the message says which.
    """
    Console().print(overview_table(jobs, workers, begin))
    bad = [job for job in jobs if job.state in UNFINISHED]
    if bad:
        what = "failed" if any(job.state != "stopped" for job in bad) else "were stopped"
        logs = ", ".join(str(RunFolder(job.folder).output_file) for job in bad)
        raise FailedJobsError(f"{len(bad)} of {len(jobs)} jobs {what}; see {logs}.")


def interrupted(jobs: Sequence[Job], error: KeyboardInterrupt) -> InterruptedRunError:
    """What to say when a signal has stopped a sweep.

    Args:
        jobs: The jobs of the sweep.
        error: The interrupt.
    """
    left = sum(job.state not in ("done", "was done") for job in jobs)
    number = stopping_signal(error) or signal.SIGINT
    return InterruptedRunError(
        f"stopped by {signal_name(number)}; {left} of {len(jobs)} jobs are left. "
        "The same command resumes them.",
        number,
    )


@contextmanager
def overview(jobs: Sequence[Job], workers: int, begin: float) -> Iterator[None]:
    """A table that is kept up to date, in a terminal."""
    console = Console()
    if not console.is_terminal:
        log.info("%d jobs, %d at a time", len(jobs), workers)
        yield
        return
    live = Live(get_renderable=lambda: overview_table(jobs, workers, begin), console=console, transient=True)
    with live:
        yield


def overview_table(jobs: Sequence[Job], workers: int, begin: float) -> Table:
    """A row for each job, and in the title how many are through, the time left and the best score.

    Args:
        jobs: Of the sweep.
        workers: How many run at a time.
        begin: When the sweep began, by the monotonic clock.
    """
    counts = {state: sum(job.state == state for job in jobs) for state in ("queued", "running", "failed")}
    finished = sum(job.state in ("done", "was done") for job in jobs)
    parts = [f"{finished} of {len(jobs)} done", *(f"{n} {state}" for state, n in counts.items() if n)]
    times = [job.seconds for job in jobs if job.state == "done"]
    if times and counts["queued"] + counts["running"]:
        left = sum(times) / len(times) * (counts["queued"] + counts["running"] / 2) / workers
        parts.append(f"about {left / 60:.0f} minutes left")
    scores = [job.score for job in jobs if job.score is not None]
    if scores:
        parts.append(f"best {max(scores):.2f}")
    table = Table(title=", ".join(parts), title_justify="left")
    for heading in ("job", "state", "score", "minutes", "folder"):
        table.add_column(
            heading, justify="right" if heading in ("score", "minutes") else "left", overflow="fold"
        )
    shared = set.intersection(*(set(job.overrides) for job in jobs)) if len(jobs) > 1 else set()
    for job in jobs:
        own = " ".join(text for text in job.overrides if text not in shared)
        score = "" if job.score is None else f"{job.score:.2f}"
        minutes = f"{job.seconds / 60:.1f}" if job.seconds else ""
        table.add_row(own, job.state, score, minutes, str(job.folder))
    return table
