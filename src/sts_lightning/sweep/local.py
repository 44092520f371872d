"""Sweeps on one machine."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Sequence
from queue import SimpleQueue

from sts_lightning.sweep.job import PATIENCE, Job, Slot, run_job, signal_job
from sts_lightning.sweep.overview import conclude, interrupted, overview, report_job

log = logging.getLogger(__name__)


def carry_out(jobs: Sequence[Job], slots: Sequence[Slot], timeout_minutes: float | None = None) -> None:
    """Run the jobs that have not finished; one that fails does not stop the others.

    Ctrl-C and SIGTERM stop all of them after their current step, so that the sweep can be resumed.

    Raises:
        UserError: Some jobs failed; the message says which.
        InterruptedRunError: The user stopped the sweep.
    """
    waiting: SimpleQueue[Job] = SimpleQueue()
    for job in jobs:
        waiting.put(job)
    stop = threading.Event()
    workers = [
        threading.Thread(target=_work, args=(waiting, slot, timeout_minutes, stop), daemon=True)
        for slot in slots[: len(jobs)]
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


def _work(waiting: SimpleQueue[Job], slot: Slot, timeout: float | None, stop: threading.Event) -> None:
    while not stop.is_set() and not waiting.empty():
        job = waiting.get()
        run_job(job, slot, timeout)
        report_job(job)


def _stop(jobs: Sequence[Job]) -> None:
    """Ask running jobs to save their state and leave; make them leave if they do not.

    By SIGTERM, since jobs of a sweep that a shell has put into the background ignore Ctrl-C.
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
        signal_job(job, signal.SIGKILL)
