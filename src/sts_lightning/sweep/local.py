"""Jobs as processes: those of a sweep on this machine, and the one that a machine of a cluster is given."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sts_lightning.config.check import path_override
from sts_lightning.config.folders import VARIABLE as CONF_VARIABLE
from sts_lightning.core.errors import RunningElsewhereError
from sts_lightning.core.hardware import NUMBERS
from sts_lightning.core.signals import KILL, PARENT, STOPPING
from sts_lightning.sweep.gpu_pool import Pool
from sts_lightning.sweep.job import Job, State
from sts_lightning.sweep.watch import PATIENCE, watch

PROCESS_RANKS = (*NUMBERS, "SLURM_PROCID", "JSM_NAMESPACE_RANK")
"""Variables of a sweep that is one task of several: each job is alone."""


class Process:
    """A job as a process of its own, whose output is a file of the run: a `watch.Handle`.

    Args:
        job: The job.
        environment: Environment variables besides those of this process.
        minutes: Time limit, after which the job saves its state and ends; None: no limit.

    Raises:
        OSError: The run folder cannot be written.
    """

    def __init__(self, job: Job, environment: Mapping[str, str], minutes: float | None = None) -> None:
        self.job, self.minutes = job, minutes
        self._begin = time.monotonic()
        self._deadline = self._begin + 60 * (minutes or math.inf)
        self._told = self._timed_out = False
        job.folder.mkdir(parents=True, exist_ok=True)
        variables = {name: value for name, value in os.environ.items() if name not in PROCESS_RANKS}
        variables |= {PARENT: str(os.getpid()), CONF_VARIABLE: job.conf, **environment}
        with job.run_folder.output_file.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, job.script, *job.overrides, path_override("hydra.run.dir", job.folder)],
                env=variables,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def state(self) -> State:
        """Return ``running`` or ``done``; end a job whose time is over, or that does not end when told."""
        if self.process.poll() is not None:
            return "done"
        if time.monotonic() > self._deadline:
            self._timed_out = self._timed_out or not self._told
            self.cancel()
        return "running"

    def cancel(self) -> None:
        """Tell the job to save its state and end; the second time, kill it.

        SIGTERM is sent, since jobs of a sweep in the background of a shell ignore SIGINT.
        """
        number = KILL if self._told else signal.SIGTERM
        self._told, self._deadline = True, time.monotonic() + PATIENCE
        if hasattr(os, "killpg"):
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)

    def wait(self) -> Job:
        """Wait until the job has ended, and return it with its outcome."""
        while self.state() != "done":
            time.sleep(0.1)
        return self.result()

    def stop(self) -> Job:
        """Let the job save its state and end, as at a time limit, and return it with its outcome."""
        if self.state() != "done":
            self.cancel()
        return self.wait()

    def result(self) -> Job:
        """Return the job with its outcome."""
        job = self.job
        job.seconds = time.monotonic() - self._begin
        job.state, job.problem = outcome(self.process.wait(), job.read_result())
        if self._timed_out and job.state != "done":
            job.state, job.problem = "timed out", f"it took longer than {self.minutes:g} minutes"
        elif job.state == "failed" and job.problem is None:
            text = job.run_folder.output_file.read_text("utf-8", errors="replace")
            job.problem = ["it printed nothing", *text.strip().splitlines()][-1]
        return job


def outcome(code: int, scored: bool) -> tuple[State, str | None]:
    """Return the state that an exit status stands for, and the problem unless the job's output names it."""
    if code == RunningElsewhereError.exit_status:
        return "runs elsewhere", None
    if code == 0:
        return ("done", None) if scored else ("failed", "it ended without a result")
    number = code - 128 if code > 128 else -code  # caught, or not
    if number in (signal.SIGINT, *STOPPING):
        return "stopped", f"it was stopped by {signal.Signals(number).name}"
    if code < 0:
        perhaps = " (perhaps memory ran out)" if number == KILL else ""
        return "failed", f"it was killed by {signal.Signals(number).name}{perhaps}"
    return "failed", None


def run_jobs(jobs: Sequence[Job], pool: Pool, timeout_minutes: float | None = None) -> None:
    """Run the jobs of a sweep on this machine; a failed job does not stop the others.

    Args:
        jobs: Jobs of the sweep.
        pool: GPUs and cores of this machine.
        timeout_minutes: Time limit of each job, after which it saves its state and ends; None: no limit.

    Raises:
        UserError: See `watch`.
    """
    width = pool.set_width(jobs)

    def start(job: Job) -> Process | None:
        environment = pool.take(job)
        return None if environment is None else Process(job, environment, timeout_minutes)

    watch(jobs, start, width, poll=0.2)


@dataclass
class RemoteJob:
    """A job as a picklable function, which runs it in the working directory of the sweep.

    Attributes:
        job: The job.
        environment: See `Process`.
        minutes: Its time limit, if the cluster has none itself.
        folder: The working directory.
    """

    job: Job
    environment: Mapping[str, str] = field(default_factory=dict)
    minutes: float | None = None
    folder: Path = field(default_factory=Path.cwd)

    def __call__(self) -> Job:
        """Run the job and return it with its outcome; an interrupt lets it save its state and end."""
        os.chdir(self.folder)
        self.process = Process(self.job, self.environment, self.minutes)
        try:
            return self.process.wait()
        except KeyboardInterrupt:
            return self.process.stop()
