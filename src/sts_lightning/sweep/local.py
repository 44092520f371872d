"""Sweeps on one machine."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Sequence

from sts_lightning.sweep.job import ENDED, KILL, PATIENCE, Job, Resources, run_job, signal_job
from sts_lightning.sweep.overview import conclude, interrupted, overview, report_job
from sts_lightning.sweep.resources import Pool

log = logging.getLogger(__name__)


def run_jobs(jobs: Sequence[Job], pool: Pool, timeout_minutes: float | None = None) -> None:
    """Run all jobs that have not finished; a failed job does not stop the others.

    Ctrl-C and SIGTERM stop all of them after their current step, so that the sweep can be resumed.

    Args:
        jobs: Jobs of the sweep.
        pool: GPUs and cores of this machine.
        timeout_minutes: Time limit of each job, after which it is killed; None: no limit.

    Raises:
        FailedJobsError: Some jobs failed; the message names them.
        InterruptedRunError: The user stopped the sweep.
    """
    waiting = _Waiting(jobs, pool)
    stop = threading.Event()
    workers = [
        threading.Thread(target=_work, args=(waiting, timeout_minutes, stop), daemon=True)
        for _ in range(pool.plan(jobs))
    ]
    begin = time.monotonic()
    try:
        with overview(jobs, len(workers), begin):
            for worker in workers:
                worker.start()
            for worker in workers:
                while worker.is_alive():
                    worker.join(0.2)
    except KeyboardInterrupt as error:
        stop.set()
        _stop(jobs)
        raise interrupted(jobs, error) from None
    conclude(jobs, len(workers), begin)


class _Waiting:
    """Queue of the jobs that have not started.

    The first one starts next whose shared stages have ended, and that fits into the pool.
    """

    def __init__(self, jobs: Sequence[Job], pool: Pool) -> None:
        self.jobs = list(jobs)
        self.stages = {job.folder: job for job in jobs if job.stage is not None}
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
        return all(self.stages[need].state in ENDED for need in job.needs if need in self.stages)

    def finish(self, resources: Resources) -> None:
        """Return the resources of a job to the pool."""
        with self.changed:
            self.pool.give(resources)
            self.changed.notify_all()


def _work(waiting: _Waiting, timeout: float | None, stop: threading.Event) -> None:
    while (started := waiting.start_next(stop)) is not None:
        job, resources = started
        try:
            run_job(job, resources, timeout)
        finally:
            waiting.finish(resources)
        report_job(job)


def _stop(jobs: Sequence[Job]) -> None:
    """Ask running jobs to save their state and exit; kill those that do not.

    SIGTERM is sent, since jobs of a sweep in the background of a shell ignore SIGINT.
    """
    running = [job for job in jobs if job.state == "running"]
    log.warning(
        "stopping %d running job(s) after their current step; Ctrl-C again to kill them.", len(running)
    )
    for job in running:
        signal_job(job, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE
    try:
        while any(job.state == "running" for job in running) and time.monotonic() < deadline:
            time.sleep(0.1)
    except KeyboardInterrupt:
        pass
    for job in running:
        signal_job(job, KILL)
