"""The one loop of a sweep: it starts jobs on this machine or a cluster, and waits for them."""

from __future__ import annotations

import contextlib
import logging
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from sts_lightning.core.errors import InterruptedRunError, UserError, counted
from sts_lightning.core.signals import signal_name, stopping_signal
from sts_lightning.sweep.job import ENDED, FAILED, Job, State
from sts_lightning.sweep.overview import conclude, overview, report_job

log = logging.getLogger(__name__)

PATIENCE = 60.0
"""Seconds that a job has to save its state once the user stops the sweep, or its time is over."""


class Handle(Protocol):
    """A started job: all that a machine or cluster has to offer besides starting it."""

    def state(self) -> State:
        """Return ``queued``, ``running``, or ``done`` once `result` is available."""

    def result(self) -> Job:
        """Return the job with its outcome.

        Raises:
            UserError: The cluster lost the job.
        """

    def cancel(self) -> None:
        """Let the job save its state and end, or take it out of the queue; the second time, kill it."""


Start = Callable[[Job], Handle | None]
"""Function that starts a job; it returns None while there is no room for it."""


def watch(jobs: Sequence[Job], start: Start, at_once: int | None = None, poll: float = 1.0) -> None:
    """Run all jobs that have not finished, each after those that it starts from.

    A failed job does not stop the others. Ctrl-C and SIGTERM let all running jobs save their state and end,
    so that the sweep can be resumed.

    Args:
        jobs: Jobs of the sweep, updated in place.
        start: Function that starts one.
        at_once: Maximum number of jobs at a time; None for any.
        poll: Seconds between two looks at the jobs.

    Raises:
        FailedJobsError: Some jobs failed; the message names their output files.
        RunningElsewhereError: No job failed, but some run elsewhere.
        InterruptedRunError: The user stopped the sweep.
    """
    at_once = min(at_once or len(jobs), len(jobs))
    by_folder = {job.folder: job for job in jobs}
    handles: dict[Path, Handle] = {}
    try:
        with overview(jobs, at_once):
            while left := [job for job in jobs if job.state not in ENDED]:
                for job in left:
                    try:
                        if job.folder in handles:
                            _update(job, handles)
                        elif len(handles) < at_once and (handle := _begin(job, by_folder, start)):
                            handles[job.folder] = handle
                    except (OSError, UserError) as error:
                        job.state, job.problem = "failed", str(error).removesuffix(".")
                    if job.state in ENDED:
                        report_job(job)
                time.sleep(poll)
    except KeyboardInterrupt as error:
        _stop(list(handles.values()))
        number = stopping_signal(error) or signal.SIGINT
        unfinished = sum(job.state not in ("done", "was done") for job in jobs)
        raise InterruptedRunError(
            f"stopped by {signal_name(number)}; {unfinished} of {len(jobs)} jobs are left. "
            "The same command resumes them.",
            number,
        ) from None
    conclude(jobs, at_once)


def _update(job: Job, handles: dict[Path, Handle]) -> None:
    state = handles[job.folder].state()
    if state == "done":
        vars(job).update(vars(handles.pop(job.folder).result()))  # a cluster returns a copy
    else:
        job.state = state


def _begin(job: Job, by_folder: Mapping[Path, Job], start: Start) -> Handle | None:
    """Start a job, unless it has finished, has to wait, or starts from a run that failed."""
    for need in [by_folder[folder] for folder in job.needs if folder in by_folder]:
        if need.state in FAILED:
            job.state, job.problem = (
                "not run",
                f"the run that it starts from, {need.folder}, has not finished",
            )
        if need.state != "done" and need.state != "was done":
            return None
    if job.read_result():
        job.state = "was done"
        return None
    return start(job)


def _stop(handles: Sequence[Handle]) -> None:
    """Let jobs save their state and end; kill those that do not."""
    log.warning(
        "stopping %s after the current step; Ctrl-C again kills at once.", counted(len(handles), "job")
    )
    deadline = time.monotonic() + PATIENCE
    with contextlib.suppress(KeyboardInterrupt):
        for handle in handles:
            handle.cancel()
        while time.monotonic() < deadline and any(handle.state() != "done" for handle in handles):
            time.sleep(0.2)
    for handle in handles:
        if handle.state() != "done":
            handle.cancel()
