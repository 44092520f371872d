"""Jobs of a sweep: fresh processes, several at a time, none run twice."""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Literal

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, open_dict
from rich.console import Console
from rich.live import Live
from rich.table import Table

from sts_lightning.errors import InterruptedRunError, UserError

log = logging.getLogger(__name__)

VOLATILE = ("hydra", "debug", "resume", "data_root")
"""Keys that do not change what a run is."""

PATIENCE = 60.0
"""Seconds that a job gets to save its state when the user stops the sweep."""

State = Literal["queued", "running", "done", "was done", "runs elsewhere", "failed", "stopped", "timed out"]


@dataclass
class Job:
    """One job of a sweep.

    Attributes:
        number: In the sweep.
        overrides: The job's command line.
        folder: Its run folder.
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
    script: str = field(default_factory=lambda: sys.argv[0])
    state: State = "queued"
    score: float | None = None
    seconds: float = 0.0
    problem: str | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Slot:
    """What a job may use: environment variables."""

    environment: dict[str, str]


def job_folder(composed: DictConfig) -> Path:
    """The folder of a run: ten letters below the sweep's, the same for configurations of the same run."""
    composed = composed.copy()
    if "data_root" in composed:
        with open_dict(composed):
            composed.data_root = ""  # other keys contain it
    hydra = HydraConfig.instance()
    previous = hydra.cfg
    hydra.set_config(composed)  # for interpolations such as ${hydra:runtime.choices.model}
    try:
        values = {
            key: OmegaConf.to_container(composed[key], resolve=True)
            if OmegaConf.is_config(composed[key])
            else composed[key]
            for key in composed
            if key not in VOLATILE and not OmegaConf.is_missing(composed, key)
        }
        parent = Path(composed.hydra.sweep.dir)
    finally:
        hydra.cfg = previous
    text = json.dumps(values, sort_keys=True, default=str)
    return parent / hashlib.sha256(text.encode()).hexdigest()[:10]


def make_slots(jobs: int | None, gpus_per_job: int, accelerator: str) -> list[Slot]:
    """Who may run at the same time, and on what.

    Args:
        jobs: How many at a time, or None for as many as there are GPUs, or pairs of cores without.
        gpus_per_job: GPUs of each job.
        accelerator: The trainer's; ``cpu`` jobs get no GPU.

    Raises:
        UserError: There are fewer GPUs than that.
    """
    gpus = _visible_gpus() if accelerator != "cpu" else []
    cores = len(os.sched_getaffinity(0))
    if gpus:
        groups = [gpus[start : start + gpus_per_job] for start in range(0, len(gpus), gpus_per_job)]
        groups = [group for group in groups if len(group) == gpus_per_job][:jobs]
        if not groups:
            raise UserError(f"hydra.launcher.gpus_per_job={gpus_per_job}, but {len(gpus)} GPUs are visible.")
        count = len(groups)
        pinned = [{"CUDA_VISIBLE_DEVICES": ",".join(group)} for group in groups]
    else:
        count = jobs or max(1, cores // 2)
        pinned = [{} for _ in range(count)]
    threads = str(max(1, cores // count))
    return [Slot({**variables, "OMP_NUM_THREADS": threads}) for variables in pinned]


def _visible_gpus() -> list[str]:
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [name for name in given.split(",") if name]
    import torch

    return [str(index) for index in range(torch.cuda.device_count())]


def carry_out(jobs: Sequence[Job], slots: Sequence[Slot], timeout_minutes: float | None = None) -> None:
    """Run the jobs that have not finished; one that fails does not stop the others.

    Ctrl-C stops all of them behind their current step, so that the sweep can go on later.

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
        with _overview(jobs, len(workers), begin):
            for worker in workers:
                worker.start()
            for worker in workers:
                while worker.is_alive():
                    worker.join(0.2)
    except KeyboardInterrupt:
        stop.set()
        _stop(jobs)
        left = sum(job.state not in ("done", "was done") for job in jobs)
        raise InterruptedRunError(
            f"stopped by Ctrl-C; {left} of {len(jobs)} jobs are left. The same command goes on with them."
        ) from None
    Console().print(_table(jobs, len(workers), begin))
    bad = [job for job in jobs if job.state in ("failed", "timed out")]
    if bad:
        logs = ", ".join(str(job.folder / "output.log") for job in bad)
        raise UserError(f"{len(bad)} of {len(jobs)} jobs failed; see {logs}.")


def _work(waiting: SimpleQueue[Job], slot: Slot, timeout: float | None, stop: threading.Event) -> None:
    while not stop.is_set() and not waiting.empty():
        job = waiting.get()
        try:
            job.folder.mkdir(parents=True, exist_ok=True)
            with (job.folder / ".lock").open("w") as lock:
                if _locked(lock):
                    _run(job, slot, timeout)
                else:
                    job.state = "runs elsewhere"
        except (OSError, UserError) as error:
            job.state, job.problem = "failed", str(error)
        message = f"{job.state}: {' '.join(job.overrides)}"
        if job.state in ("failed", "timed out"):
            log.error("%s\n  %s; see %s", message, _reason(job), job.folder / "output.log")
        else:
            log.info("%s%s", message, "" if job.score is None else f" ({job.score:.2f})")


def _locked(lock: IO[str]) -> bool:
    """Whether no other sweep has this job at present; held until the file is closed, or the process dies."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _reason(job: Job) -> str:
    """What went wrong, or else the last line that the job printed."""
    if job.problem is not None:
        return job.problem
    try:
        text = (job.folder / "output.log").read_text("utf-8", errors="replace")
    except OSError as error:
        return str(error)
    return next((line for line in reversed(text.splitlines()) if line.strip()), "it printed nothing")


def _run(job: Job, slot: Slot, timeout_minutes: float | None) -> None:
    if (score := result(job.folder)) is not None:
        job.state, job.score = "was done", score
        return
    if _can_go_on(job.folder):
        arguments = [f"resume={job.folder}"]
    else:
        (job.folder / "config.yaml").unlink(missing_ok=True)  # cut before its first checkpoint
        arguments = [*job.overrides, f"hydra.run.dir={job.folder}"]
    job.state, begin = "running", time.monotonic()
    environment = {
        name: value for name, value in os.environ.items() if name != "LOCAL_RANK"
    } | slot.environment
    with (job.folder / "output.log").open("ab") as output:
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
            _signal(job, signal.SIGKILL)
            job.process.wait()
            job.state = "timed out"
            return
    job.seconds = time.monotonic() - begin
    job.score = result(job.folder)
    if code < 0:
        out_of_memory = " (perhaps memory ran out)" if code == -signal.SIGKILL else ""
        job.problem = f"it was killed by {signal.Signals(-code).name}{out_of_memory}"
    job.state = "stopped" if code == 130 else "done" if code == 0 else "failed"


def result(folder: Path) -> float | None:
    """The dev Spearman of a finished run, or of its last stage; of an evaluation the average on tests."""
    stages = folder / "stages.yaml"
    if stages.is_file():
        folder = folder / str(list(OmegaConf.load(stages))[-1])
    try:
        metrics = json.loads((folder / "metrics.json").read_text("utf-8"))
        return float(metrics["dev"]["spearman"] if "dev" in metrics else metrics["test"]["average"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{folder / 'metrics.json'} is broken ({type(error).__name__}); remove it to score the run again."
        ) from error


def _can_go_on(folder: Path) -> bool:
    return (folder / "checkpoints" / "last.ckpt").is_file() or (folder / "stages.yaml").is_file()


def _signal(job: Job, number: signal.Signals) -> None:
    if job.process is not None and job.process.poll() is None:
        os.killpg(job.process.pid, number)


def _stop(jobs: Sequence[Job]) -> None:
    """Ask running jobs to save their state and leave; make them leave if they do not."""
    running = [job for job in jobs if job.state == "running"]
    log.warning(
        "stopping %d running job(s) after their current step; Ctrl-C again to kill them.", len(running)
    )
    for job in running:
        _signal(job, signal.SIGINT)
    deadline = time.monotonic() + PATIENCE
    try:
        while any(job.state == "running" for job in running) and time.monotonic() < deadline:
            time.sleep(0.1)
    except KeyboardInterrupt:
        pass
    for job in running:
        _signal(job, signal.SIGKILL)


@contextmanager
def _overview(jobs: Sequence[Job], workers: int, begin: float) -> Iterator[None]:
    """A table that is kept up to date, in a terminal."""
    console = Console()
    if not console.is_terminal:
        log.info("%d jobs, %d at a time", len(jobs), workers)
        yield
        return
    live = Live(get_renderable=lambda: _table(jobs, workers, begin), console=console, transient=True)
    with live:
        yield


def _table(jobs: Sequence[Job], workers: int, begin: float) -> Table:
    counts = {state: sum(job.state == state for job in jobs) for state in ("queued", "running", "failed")}
    finished = sum(job.state in ("done", "was done") for job in jobs)
    title = f"{finished} of {len(jobs)} done, " + ", ".join(
        f"{n} {state}" for state, n in counts.items() if n
    )
    times = [job.seconds for job in jobs if job.state == "done"]
    if times and counts["queued"] + counts["running"]:
        left = sum(times) / len(times) * (counts["queued"] + counts["running"] / 2) / workers
        title += f", about {left / 60:.0f} minutes left"
    scores = [job.score for job in jobs if job.score is not None]
    if scores:
        title += f", best {max(scores):.2f}"
    table = Table(title=title, title_justify="left")
    for heading in ("job", "state", "score", "minutes", "folder"):
        table.add_column(
            heading, justify="right" if heading in ("score", "minutes") else "left", overflow="fold"
        )
    shared = set.intersection(*(set(job.overrides) for job in jobs)) if len(jobs) > 1 else set()
    for job in jobs:
        own = " ".join(text for text in job.overrides if text not in shared)
        score = "" if job.score is None else f"{job.score:.2f}"
        minutes = f"{job.seconds / 60:.1f}" if job.seconds else ""
        table.add_row(own, job.state, score, minutes, str(job.folder))
    return table
