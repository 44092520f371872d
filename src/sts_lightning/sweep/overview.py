"""Progress of a sweep in a terminal."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from sts_lightning.core.errors import FailedJobsError, RunningElsewhereError, counted
from sts_lightning.runs.lock import holder
from sts_lightning.sweep.job import Job

log = logging.getLogger(__name__)


def report_job(job: Job) -> None:
    """Log the outcome of a job."""
    message = f"{job.state}: {job.title()}"
    if job.problem is None:
        log.info("%s%s", message, "" if job.score is None else f" ({job.score:.2f})")
    else:
        output = job.run_folder.output_file
        log.error("%s\n  %s%s", message, job.problem, f"; see {output}" if output.exists() else "")


def conclude(jobs: Sequence[Job], workers: int) -> None:
    """Print the outcome of all jobs.

    Raises:
        FailedJobsError: Some jobs failed; the message names their output files.
        RunningElsewhereError: No job failed, but some run elsewhere, so that their results are not known yet.
    """
    Console().print(overview_table(jobs, workers))
    if bad := [job for job in jobs if job.state in ("failed", "timed out", "stopped")]:
        what = "failed" if any(job.state != "stopped" for job in bad) else "were stopped"
        logs = ", ".join(str(job.run_folder.output_file) for job in bad)
        skipped = sum(job.state == "not run" for job in jobs)
        were = f"; {skipped} that start from them were not run" if skipped else ""
        raise FailedJobsError(f"{len(bad)} of {len(jobs)} jobs {what}{were}; see {logs}.")
    if elsewhere := [job for job in jobs if job.state == "runs elsewhere"]:
        holders = ", ".join(f"{job.folder} ({holder(job.folder)})" for job in elsewhere)
        raise RunningElsewhereError(
            f"{len(elsewhere)} of {len(jobs)} jobs run elsewhere: {holders}.",
            hint="The same command collects them later, or resumes them.",
        )


def common(jobs: Sequence[Job]) -> set[str]:
    """Return the overrides that all of several jobs have that the user asked for; empty for a single job."""
    asked = [set(job.overrides) for job in jobs if not job.first]
    return set.intersection(*asked) if len(asked) > 1 else set()


def overview(jobs: Sequence[Job], workers: int) -> Live:
    """Return a live table of the jobs, which is empty where the output is no terminal."""
    log.info("%s, %d at a time", counted(len(jobs), "job"), workers)
    return Live(get_renderable=lambda: overview_table(jobs, workers), transient=True)


def overview_table(jobs: Sequence[Job], workers: int) -> Table:
    """Return a table with one row per job; its title has the progress, the time left and the best score."""
    counts = {state: sum(job.state == state for job in jobs) for state in ("queued", "running", "failed")}
    finished = sum(job.state in ("done", "was done") for job in jobs)
    parts = [f"{finished} of {len(jobs)} done", *(f"{n} {state}" for state, n in counts.items() if n)]
    times = [job.seconds for job in jobs if job.state == "done"]
    if times and counts["queued"] + counts["running"]:
        left = sum(times) / len(times) * (counts["queued"] + counts["running"] / 2) / workers
        parts.append(f"about {left / 60:.0f} minutes left")
    scores = [job.score for job in jobs if job.score is not None]
    if scores and len({job.pairs for job in jobs if job.pairs is not None}) <= 1:  # else not comparable
        parts.append(f"best {max(scores):.2f}")
    table = Table(title=", ".join(parts), title_justify="left")
    for heading in ("job", "state", "score", "minutes", "folder"):
        table.add_column(heading, overflow="fold")
    shared = common(jobs)
    for job in jobs:
        score = "" if job.score is None else f"{job.score:6.2f}"
        minutes = f"{job.seconds / 60:7.1f}" if job.seconds else ""
        table.add_row(escape(job.title(shared)), job.state, score, minutes, str(job.folder))
    return table
