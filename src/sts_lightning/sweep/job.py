"""A job of a sweep: folder, process and result."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

import psutil
from omegaconf import DictConfig

from sts_lightning.config.check import path_override
from sts_lightning.config.compose import job_config
from sts_lightning.config.folders import VARIABLE as CONF_VARIABLE
from sts_lightning.config.folders import user_folder
from sts_lightning.config.identity import configuration_hash
from sts_lightning.core.errors import RunningElsewhereError, UserError
from sts_lightning.core.hardware import NUMBERS
from sts_lightning.core.signals import KILL, PARENT
from sts_lightning.runs.folder import RunFolder

PATIENCE = 60.0
"""Seconds that a job has to save its state once the user stops the sweep, or its time is over."""

RANKS = (*NUMBERS, "SLURM_PROCID", "JSM_NAMESPACE_RANK")
"""Variables of a sweep that is one task of several: each job is alone."""

NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
STOPPING = {number for number in signal.Signals if number.name in NAMES}
"""Signals by which a user or a cluster stops a process; Windows has the first two only."""

State = Literal[
    "queued", "running", "done", "was done", "runs elsewhere", "failed", "stopped", "timed out", "not run"
]

ENDED = tuple(state for state in get_args(State) if state not in ("queued", "running"))
"""States of a job that has nothing left to do."""

FAILED = tuple(state for state in ENDED if state not in ("done", "was done"))
"""States of a job without a result of this sweep."""


@dataclass(frozen=True)
class Resources:
    """Environment and GPUs assigned to a job.

    Attributes:
        environment: Environment variables of the job's process.
        gpus: Names of the GPUs, as in ``CUDA_VISIBLE_DEVICES``.
    """

    environment: dict[str, str]
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True)
class Demand:
    """GPUs requested by a job.

    Attributes:
        gpus: Number of GPUs; 0: none; -1: all of the machine.
        required: True if the job cannot run on the CPU.
    """

    gpus: int = 0
    required: bool = False


@dataclass
class Job:
    """One job of a sweep.

    Attributes:
        number: Index in the sweep.
        overrides: Command-line overrides.
        folder: Path of the run folder.
        demand: Requested GPUs.
        script: Path of the script; by default that of the current process.
        conf: User's folder of the configuration; empty: none.
        needs: Folders of the runs that the job starts from, in order, each trained by a job of its own.
        first: Whether it is there for the jobs that need it alone: the user did not ask for it.
        state: Current state.
        score: Result; None until there is one.
        pairs: What the score is a score of, see `RunMetrics.scored_pairs`.
        seconds: Duration in seconds.
        problem: Reason of a failure.
        process: Process of the job, once started.
    """

    number: int
    overrides: tuple[str, ...]
    folder: Path
    demand: Demand = Demand()
    script: str = field(default_factory=lambda: sys.argv[0])
    conf: str = field(default_factory=lambda: str(user_folder() or ""))
    needs: tuple[Path, ...] = ()
    first: bool = False
    state: State = "queued"
    score: float | None = None
    pairs: str | None = None
    seconds: float = 0.0
    problem: str | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def run_folder(self) -> RunFolder:
        """Files of the run."""
        return RunFolder(self.folder)

    def title(self, without: Collection[str] = ()) -> str:
        """Return the overrides of the job in one line, those of `without` left out."""
        return " ".join(text for text in self.overrides if text not in without)


def job_folder(composed: DictConfig) -> Path:
    """Return the folder of a run, named after a hash of its configuration, below the folder of the sweep."""
    with job_config(composed):
        return Path(composed.hydra.sweep.dir) / configuration_hash(composed)


def run_job(job: Job, resources: Resources, timeout_minutes: float | None = None) -> None:
    """Run a job unless it has finished or runs elsewhere, and store the outcome in it.

    Args:
        job: The job.
        resources: Environment and GPUs assigned to the job.
        timeout_minutes: Time limit, after which the job saves its state and ends; None: no limit.
    """
    try:
        if _read_result(job):
            job.state = "was done"
            return
        missing = [need for need in job.needs if not RunFolder(need).finished]
        if missing:
            skip_job(job, missing[0])
            return
        job.folder.mkdir(parents=True, exist_ok=True)
        _run(job, resources, timeout_minutes)
    except (OSError, UserError) as error:
        job.state, job.problem = "failed", str(error).removesuffix(".")
    if job.state == "failed" and job.problem is None:
        job.problem = _last_line(job.run_folder.output_file)


def skip_job(job: Job, need: Path) -> None:
    """Store that a job is not run, since the run in a folder that it starts from has not finished."""
    job.state, job.problem = "not run", f"the run that it starts from, {need}, has not finished"


def _last_line(path: Path) -> str:
    try:
        text = path.read_text("utf-8", errors="replace")
    except OSError as error:
        return str(error)
    return next((line for line in reversed(text.splitlines()) if line.strip()), "it printed nothing")


def _run(job: Job, resources: Resources, timeout_minutes: float | None) -> None:
    arguments = [*job.overrides, path_override("hydra.run.dir", job.folder)]
    job.state, begin, timed_out = "running", time.monotonic(), False
    environment = {name: value for name, value in os.environ.items() if name not in RANKS}
    environment |= {PARENT: str(os.getpid()), CONF_VARIABLE: job.conf, **resources.environment}
    with job.run_folder.output_file.open("ab") as output:
        job.process = subprocess.Popen(
            [sys.executable, job.script, *arguments],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = job.process.wait(None if timeout_minutes is None else 60 * timeout_minutes)
        except subprocess.TimeoutExpired:
            stop_job(job)
            code, timed_out = job.process.wait(), True
    job.seconds = time.monotonic() - begin
    job.state, job.problem = _outcome(code, _read_result(job))
    if timed_out and job.state != "done":
        job.state, job.problem = "timed out", f"it took longer than {timeout_minutes:g} minutes"


def _read_result(job: Job) -> bool:
    """Store the result of a job, if it has finished, and return whether it has."""
    job.score = result(job.folder)
    if job.score is not None:
        job.pairs = job.run_folder.metrics().scored_pairs
    return job.score is not None


def _outcome(code: int, scored: bool) -> tuple[State, str | None]:
    """Return the state that an exit status stands for, and the problem unless the job's output names it."""
    if code == RunningElsewhereError.exit_status:
        return "runs elsewhere", None
    if code == 0:
        return ("done", None) if scored else ("failed", "it ended without a result")
    number = code - 128 if code > 128 else -code  # caught, or not
    if number in STOPPING:
        return "stopped", f"it was stopped by {signal.Signals(number).name}"
    if code < 0:
        out_of_memory = " (perhaps memory ran out)" if code == -KILL else ""
        return "failed", f"it was killed by {signal.Signals(-code).name}{out_of_memory}"
    return "failed", None


def result(folder: Path) -> float | None:
    """Return the score of a finished run; None if it has not finished."""
    run = RunFolder(folder)
    return run.metrics().score if run.metrics_file.is_file() else None


def signal_job(job: Job, number: signal.Signals) -> None:
    """Send a signal to a local job and to the processes that it started."""
    if job.process is None or job.process.poll() is not None:
        return
    if hasattr(os, "killpg"):
        os.killpg(job.process.pid, number)
    else:
        job.process.send_signal(number)


def stop_job(job: Job) -> None:
    """Ask a job to save its state and end, and kill it if it does not; `run_job` reads its exit status.

    All launchers do this at a time limit, as do clusters when they take a machine back or a sweep is stopped.
    `Popen.poll` does not say whether the process has ended, since this also runs in a handler of a signal,
    which may have interrupted a `Popen.wait` that holds its lock.
    """
    if job.process is None:
        return
    signal_job(job, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE
    try:
        process = psutil.Process(job.process.pid)
        while process.status() != psutil.STATUS_ZOMBIE:
            if time.monotonic() > deadline:
                signal_job(job, KILL)
                return
            time.sleep(0.1)
    except psutil.NoSuchProcess:  # its exit status has been read
        return
