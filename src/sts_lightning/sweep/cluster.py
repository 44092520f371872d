"""Sweeps past one machine: jobs handed to SLURM through submitit, or to a Ray cluster.

The machines share a file system: a job runs in the folder that the sweep was started in, with the same
Python, and its run folder is the same as in a sweep on one machine, so that either goes on with what the
other has left.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from sts_lightning.errors import UserError
from sts_lightning.sweep.job import PATIENCE, Job, Slot, State, run_job, signal_job, wait_for_exit
from sts_lightning.sweep.overview import conclude, interrupted, overview, report_job

POLL = 1.0
"""Seconds between two looks at the cluster."""


class Handle(Protocol):
    """A job that a cluster has."""

    def state(self) -> State:
        """``queued`` or ``running``, or ``done`` once there is a result."""
        ...

    def result(self) -> Job:
        """The job with what became of it.

        Raises:
            UserError: The cluster lost it.
        """
        ...

    def cancel(self) -> None:
        """Take it off the cluster."""
        ...


class RemoteJob:
    """What runs on the cluster: the job in a process of its own, in the folder of the sweep.

    Args:
        job: What is run.
        timeout_minutes: After which it is stopped; None: never.
    """

    def __init__(self, job: Job, timeout_minutes: float | None = None) -> None:
        self.job = dataclasses.replace(job, process=None)
        self.timeout_minutes = timeout_minutes
        self.folder = Path.cwd()

    def __call__(self) -> Job:
        """Run it; returns the job with what became of it."""
        os.chdir(self.folder)
        run_job(self.job, Slot({}), self.timeout_minutes)
        return dataclasses.replace(self.job, process=None)

    def checkpoint(self) -> Any:
        """What submitit queues again when SLURM's time is up: the same, which goes on where it was.

        submitit calls this from a signal handler some time before SLURM kills the job, which is asked to save
        its state first.
        """
        from submitit.helpers import DelayedSubmission

        signal_job(self.job, signal.SIGTERM)
        wait_for_exit(self.job, PATIENCE)
        again = RemoteJob(self.job, self.timeout_minutes)
        again.folder = self.folder
        return DelayedSubmission(again)


def watch(jobs: Sequence[Job], handles: Sequence[Handle]) -> None:
    """Follow submitted jobs until all are through; Ctrl-C takes them off the cluster.

    Raises:
        UserError: Some failed; the message says which.
        InterruptedRunError: The user stopped the sweep.
    """
    begin = time.monotonic()
    left = dict(enumerate(handles))
    try:
        with overview(jobs, len(jobs), begin):
            while left:
                for index, handle in list(left.items()):
                    _look(jobs[index], handle)
                    if jobs[index].state not in ("queued", "running"):
                        del left[index]
                        report_job(jobs[index])
                time.sleep(POLL if left else 0)
    except KeyboardInterrupt as error:
        for handle in left.values():
            handle.cancel()
        raise interrupted(jobs, error) from None
    conclude(jobs, len(jobs), begin)


def _look(job: Job, handle: Handle) -> None:
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
