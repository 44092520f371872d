"""A job of a sweep: its folder, its process, its result."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, open_dict

from sts_lightning.config.keys import stage_overrides
from sts_lightning.config.renamed import first_names
from sts_lightning.config.trust import NOTHING, Trust, wanted
from sts_lightning.errors import FinishedRunError, RunningElsewhereError, UserError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.state import VOLATILE

PATIENCE = 60.0
"""Seconds that a job gets to save its state when the user stops the sweep."""

State = Literal["queued", "running", "done", "was done", "runs elsewhere", "failed", "stopped", "timed out"]


@dataclass(frozen=True)
class Slot:
    """What a job may use.

    Attributes:
        environment: Environment variables of its process.
        gpus: Names of its GPUs.
    """

    environment: dict[str, str]
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True)
class Demand:
    """The GPUs that a job asks for.

    Attributes:
        gpus: How many; 0: none; -1: all of the machine.
        required: Whether it cannot run without; else it takes the CPU where there are none.
    """

    gpus: int = 0
    required: bool = False


@dataclass
class Job:
    """One job of a sweep.

    Attributes:
        number: In the sweep.
        overrides: The job's command line.
        folder: Its run folder.
        demand: The GPUs that it asks for.
        trust: The consent that resuming it needs: what its own configuration names is the user's word.
        script: What is run; by default what runs now.
        state: Where it stands.
        score: Its result once it has one.
        seconds: How long it ran.
        problem: Why it could not be run.
        process: It, while it runs.
    """

    number: int
    overrides: tuple[str, ...]
    folder: Path
    demand: Demand = Demand()
    script: str = field(default_factory=lambda: sys.argv[0])
    trust: Trust = NOTHING
    state: State = "queued"
    score: float | None = None
    seconds: float = 0.0
    problem: str | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)


def job_folder(composed: DictConfig) -> Path:
    """The folder of a run: ten letters below the sweep's, the same for configurations of the same run."""
    composed = composed.copy()
    if "data_root" in composed:
        with open_dict(composed):
            composed.data_root = ""  # other keys contain it
    values, parent = _resolved(composed)
    text = json.dumps(first_names(values), sort_keys=True, default=str)
    return Path(parent) / hashlib.sha256(text.encode()).hexdigest()[:10]


def _resolved(composed: DictConfig) -> tuple[dict[str, Any], str]:
    """What a job's configuration says about the run, and the sweep's folder."""
    hydra = HydraConfig.instance()
    previous = hydra.cfg
    hydra.set_config(composed)  # for interpolations such as ${hydra:runtime.choices.model}
    try:
        values = {
            str(key): OmegaConf.to_container(composed[key], resolve=True)
            if OmegaConf.is_config(composed[key])
            else composed[key]
            for key in composed
            if key not in VOLATILE and not OmegaConf.is_missing(composed, key)
        }
        return values, composed.hydra.sweep.dir
    finally:
        hydra.cfg = previous


def job_trust(
    composed: DictConfig, overrides: Sequence[str], compose: Callable[[list[str]], DictConfig]
) -> Trust:
    """The consent that resuming a job needs, from what the sweep itself has composed.

    Args:
        composed: The job's configuration, with Hydra's own part.
        overrides: The job's command line.
        compose: Composes the configuration of another command line, for the stages of a job.
    """
    values, _ = _resolved(composed)
    stages = values.pop("stages", None) or {}
    trust = Trust.of(composed.get("trust") or (), bool(composed.get("trust_remote_code"))) | wanted(values)
    for settings in stages.values():
        trust |= wanted(settings)
        if settings.get("experiment") is not None:
            trust |= wanted(_resolved(compose(stage_overrides(overrides, settings["experiment"])))[0])
    return trust


def run_job(job: Job, slot: Slot, timeout_minutes: float | None = None) -> None:
    """Run a job unless it has finished or runs elsewhere; what became of it is in the job afterwards.

    Args:
        job: The job.
        slot: What it may use.
        timeout_minutes: Time after which it is killed; None: never.
    """
    try:
        job.folder.mkdir(parents=True, exist_ok=True)
        _run(job, slot, timeout_minutes)
    except (OSError, UserError) as error:
        job.state, job.problem = "failed", str(error)
    if job.state == "failed" and job.problem is None:
        job.problem = _last_line(RunFolder(job.folder).output_file)


def _last_line(path: Path) -> str:
    try:
        text = path.read_text("utf-8", errors="replace")
    except OSError as error:
        return str(error)
    return next((line for line in reversed(text.splitlines()) if line.strip()), "it printed nothing")


def _run(job: Job, slot: Slot, timeout_minutes: float | None) -> None:
    if (score := result(job.folder)) is not None:
        job.state, job.score = "was done", score
        return
    if RunFolder(job.folder).state == "cut":
        arguments = [f"resume={job.folder}", *job.trust.arguments()]
    else:
        arguments = [*job.overrides, f"hydra.run.dir={job.folder}"]
    job.state, begin = "running", time.monotonic()
    environment = {
        name: value for name, value in os.environ.items() if name != "LOCAL_RANK"
    } | slot.environment
    with (RunFolder(job.folder).output_file).open("ab") as output:
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
            signal_job(job, signal.SIGKILL)
            job.process.wait()
            job.state, job.problem = "timed out", f"it took longer than {timeout_minutes:g} minutes"
            return
    job.seconds = time.monotonic() - begin
    job.score = result(job.folder)
    job.state, job.problem = _outcome(code, job.score is not None)


def _outcome(code: int, scored: bool) -> tuple[State, str | None]:
    """What an exit status means, and the problem where the job's log does not tell it.

    Args:
        code: Exit status of the process; negative: the signal that killed it.
        scored: Whether there is a result.
    """
    if code == RunningElsewhereError.exit_status:
        return "runs elsewhere", None
    if code == FinishedRunError.exit_status and scored:  # by another sweep, since this one looked
        return "was done", None
    if code == 0:
        return ("done", None) if scored else ("failed", "it ended without a result")
    number = _stopping(code)
    if number is not None:
        return "stopped", f"it was stopped by {number.name}"
    if code < 0:
        out_of_memory = " (perhaps memory ran out)" if code == -signal.SIGKILL else ""
        return "failed", f"it was killed by {signal.Signals(-code).name}{out_of_memory}"
    return "failed", None


def _stopping(code: int) -> signal.Signals | None:
    """The signal by which a user or a cluster stopped a process, whether that caught it or not."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2)
    return next((number for number in numbers if code in (128 + number, -number)), None)


def result(folder: Path) -> float | None:
    """The dev Spearman of a finished run, or of its last stage; of an evaluation the average on tests."""
    run = RunFolder(folder).last_stage()
    return run.metrics().score if run.metrics_file.is_file() else None


def signal_job(job: Job, number: signal.Signals) -> None:
    """Send a signal to a job that runs on this machine, and to what it started."""
    if job.process is not None and job.process.poll() is None:
        os.killpg(job.process.pid, number)


def wait_for_exit(job: Job, seconds: float) -> None:
    """Wait so long for a job to leave, without taking its exit status from whoever else waits for it."""
    deadline = time.monotonic() + seconds
    while job.process is not None and time.monotonic() < deadline:
        try:
            if os.waitid(os.P_PID, job.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return
        except ChildProcessError:  # the status has been taken already
            return
        time.sleep(0.1)
