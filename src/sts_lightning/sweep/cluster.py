"""Sweeps beyond one machine: jobs submitted to SLURM through submitit, or to a Ray cluster.

A shared file system is required. A job runs in the working directory of the sweep, with the same Python, and
its run folder is that of a local sweep, so that local and cluster sweeps resume each other's runs.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from sts_lightning.errors import UserError
from sts_lightning.sweep.job import (
    FAILED,
    PATIENCE,
    Job,
    Resources,
    State,
    run_job,
    signal_job,
    skip_job,
    wait_for_exit,
)
from sts_lightning.sweep.overview import conclude, interrupted, overview, report_job

POLL = 1.0
"""Seconds between two queries of the cluster."""


class Handle(Protocol):
    """A submitted job."""

    def state(self) -> State:
        """Return ``queued``, ``running``, or ``done`` once `result` is available."""
        ...

    def result(self) -> Job:
        """Return the job with its outcome.

        Raises:
            UserError: The cluster lost the job.
        """
        ...

    def cancel(self) -> None:
        """Cancel the job."""
        ...


class RemoteJob:
    """A job as a picklable function, which runs it as a process in the working directory of the sweep.

    Args:
        job: The job.
        timeout_minutes: Time limit, after which the job is killed; None: no limit.
    """

    def __init__(self, job: Job, timeout_minutes: float | None = None) -> None:
        self.job = dataclasses.replace(job, process=None)
        self.timeout_minutes = timeout_minutes
        self.folder = Path.cwd()

    def __call__(self) -> Job:
        """Run the job and return it with its outcome."""
        os.chdir(self.folder)
        run_job(self.job, Resources({}), self.timeout_minutes)
        return dataclasses.replace(self.job, process=None)

    def checkpoint(self) -> Any:
        """Requeue hook: on a SLURM timeout submitit resubmits the job, which resumes.

        submitit calls this from a signal handler shortly before SLURM kills the job. The job saves its state
        first.
        """
        from submitit.helpers import DelayedSubmission

        signal_job(self.job, signal.SIGTERM)
        wait_for_exit(self.job, PATIENCE)
        again = RemoteJob(self.job, self.timeout_minutes)
        again.folder = self.folder
        return DelayedSubmission(again)


def watch(jobs: Sequence[Job], handles: Sequence[Handle], at_once: int | None = None) -> None:
    """Wait until all submitted jobs have ended; Ctrl-C cancels them.

    Args:
        jobs: Jobs of the sweep, updated in place.
        handles: Submitted jobs, in the same order.
        at_once: Maximum number of jobs at a time; None for any.

    Raises:
        FailedJobsError: Some jobs failed; the message names their output files.
        RunningElsewhereError: No job failed, but some run elsewhere.
        InterruptedRunError: The user stopped the sweep.
    """
    begin, workers = time.monotonic(), min(at_once or len(jobs), len(jobs))
    left = dict(enumerate(handles))
    stages = {job.folder: job for job in jobs if job.stage is not None}
    try:
        with overview(jobs, workers, begin):
            while left:
                for index, handle in list(left.items()):
                    _update(jobs[index], handle, stages)
                    if jobs[index].state not in ("queued", "running"):
                        del left[index]
                        report_job(jobs[index])
                time.sleep(POLL if left else 0)
    except KeyboardInterrupt as error:
        for handle in left.values():
            handle.cancel()
        raise interrupted(jobs, error) from None
    conclude(jobs, workers, begin)


def _update(job: Job, handle: Handle, stages: Mapping[Path, Job]) -> None:
    for need in job.needs:
        if need in stages and stages[need].state in FAILED:
            handle.cancel()
            skip_job(job, need)
            return
    state = handle.state()
    if state in ("queued", "running"):
        job.state = state
        return
    try:
        result = handle.result()
    except UserError as error:
        job.state, job.problem = "failed", str(error)
        return
    for name in ("state", "score", "seconds", "problem"):
        setattr(job, name, getattr(result, name))
