"""Sweeps on one machine."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Sequence

from sts_lightning.core.errors import counted
from sts_lightning.core.signals import KILL
from sts_lightning.sweep.gpu_pool import Pool
from sts_lightning.sweep.job import ENDED, PATIENCE, Job, Resources, run_job, signal_job
from sts_lightning.sweep.overview import conclude, interrupted, overview, report_job

log = logging.getLogger(__name__)


def run_jobs(jobs: Sequence[Job], pool: Pool, timeout_minutes: float | None = None) -> None:
    """Run all jobs that have not finished; a failed job does not stop the others.

    Ctrl-C and SIGTERM stop all of them after their current step, so that the sweep can be resumed.

    Args:
        jobs: Jobs of the sweep.
        pool: GPUs and cores of this machine.
        timeout_minutes: Time limit of each job, after which it saves its state and ends; None: no limit.

    Raises:
        FailedJobsError: Some jobs failed; the message names them.
        RunningElsewhereError: No job failed, but some run elsewhere.
        InterruptedRunError: The user stopped the sweep.
    """
    waiting = _Waiting(jobs, pool)
    stop = threading.Event()
    workers = [_Worker(waiting, timeout_minutes, stop) for _ in range(pool.set_width(jobs))]
    try:
        with overview(jobs, len(workers)):
            for worker in workers:
                worker.start()
            for worker in workers:
                while not worker.ended.wait(0.2):
                    pass
    except KeyboardInterrupt as error:
        stop.set()
        _stop(jobs, workers)
        raise interrupted(jobs, error) from None
    conclude(jobs, len(workers))


class _Waiting:
    """Queue of the jobs that have not started.

    The first one starts next of which the runs that it starts from have ended, and that fits into the pool.
    """

    def __init__(self, jobs: Sequence[Job], pool: Pool) -> None:
        self.jobs = list(jobs)
        self.by_folder = {job.folder: job for job in jobs}
        self.pool = pool
        self.changed = threading.Condition()

    def start_next(self, stop: threading.Event) -> tuple[Job, Resources] | None:
        """Wait until a job fits into the pool; return None once no job is left."""
        with self.changed:
            while self.jobs and not stop.is_set():
                for job in filter(self._is_ready, self.jobs):
                    if (resources := self.pool.take(job)) is not None:
                        self.jobs.remove(job)
                        return job, resources
                self.changed.wait(0.2)
        return None

    def _is_ready(self, job: Job) -> bool:
        return all(self.by_folder[need].state in ENDED for need in job.needs if need in self.by_folder)

    def finish(self, resources: Resources) -> None:
        """Return the resources of a job to the pool."""
        with self.changed:
            self.pool.give(resources)
            self.changed.notify_all()


class _Worker(threading.Thread):
    """Runs one job after another.

    Attributes:
        ended: Set once no job is left. `join` and `is_alive` do not tell: a signal that interrupts them makes
            Python take a running thread for an ended one.
    """

    def __init__(self, waiting: _Waiting, timeout: float | None, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.waiting, self.timeout, self.stop = waiting, timeout, stop
        self.ended = threading.Event()

    @property
    def works(self) -> bool:
        """Whether the thread has been started and has not ended."""
        return self.ident is not None and not self.ended.is_set()

    def run(self) -> None:
        try:
            while (started := self.waiting.start_next(self.stop)) is not None:
                self._run(*started)
        finally:
            self.ended.set()

    def _run(self, job: Job, resources: Resources) -> None:
        try:
            run_job(job, resources, self.timeout)
        finally:
            self.waiting.finish(resources)
        report_job(job)


def _stop(jobs: Sequence[Job], workers: Sequence[_Worker]) -> None:
    """Ask running jobs to save their state and exit; kill those that do not.

    SIGTERM is sent, since jobs of a sweep in the background of a shell ignore SIGINT. A job that a worker is
    about to start gets its signal as soon as it has a process.
    """
    signalled: set[int] = set()
    deadline = time.monotonic() + PATIENCE
    try:
        count = sum(job.state == "running" for job in jobs)
        log.warning(
            "stopping %s after the current step; Ctrl-C again kills at once.", counted(count, "running job")
        )
        while any(worker.works for worker in workers) and time.monotonic() < deadline:
            for job in jobs:
                if job.process is not None and job.process.pid not in signalled:
                    signalled.add(job.process.pid)
                    signal_job(job, signal.SIGTERM)
            time.sleep(0.1)
    except KeyboardInterrupt:
        pass
    for job in jobs:
        signal_job(job, KILL)
