"""This process within a batch job of SLURM: the job's number, whether it was requeued, and requeueing it."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from sts_lightning.core.signals import PARENT

INTERACTIVE = ("bash", "interactive")
"""Names of jobs that SLURM gives to a shell."""

ANNOUNCEMENTS = tuple(getattr(signal, name) for name in ("SIGUSR1", "SIGUSR2") if hasattr(signal, name))
"""Signals by which SLURM announces a time limit (``--signal``); scancel and a preemption send SIGTERM."""

PATIENCE = 60.0
"""Seconds that scontrol may take."""


def batch_job() -> str | None:
    """Return the number of the batch job that this process belongs to, as scontrol takes it.

    It is None outside SLURM, in an interactive job, and in a job of a sweep, whose launcher starts it again.
    """
    if PARENT in os.environ or os.environ.get("SLURM_JOB_NAME") in INTERACTIVE:
        return None
    array, task = (os.environ.get(f"SLURM_ARRAY_{name}_ID") for name in ("JOB", "TASK"))
    return f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID")


def requeued() -> bool:
    """Return whether SLURM has started the batch job again, with the commands of its earlier start."""
    return batch_job() is not None and os.environ.get("SLURM_RESTART_COUNT", "0") not in ("", "0")


def new_folder(parent: str, finished: Callable[[Path], bool], arguments: Sequence[str] | None = None) -> str:
    """Return the folder of a new run, named by the time, or, in a batch job, so that a later start finds it.

    Where the same command has finished in the same job, as in an allocation in which one works, the name has
    a number. A requeued job takes the last folder, which its earlier start left.

    Args:
        parent: Folder of the run folders.
        finished: Whether the run in a folder has finished.
        arguments: Arguments of the command, of which a batch job may have several; by default those of this
            process.
    """
    job = batch_job()
    if job is None:
        return f"{parent}/{time.strftime('%Y-%m-%d_%H-%M-%S')}"
    text = "\0".join(sys.argv[1:] if arguments is None else arguments)
    first = f"{parent}/slurm-{job}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"
    folder, number = first, 1
    while finished(Path(folder)):
        number += 1
        later = f"{first}-{number}"
        if requeued() and not Path(later).exists():
            break
        folder = later
    return folder


def requeue(number: signal.Signals) -> str | None:
    """Queue the batch job again if a signal announced its time limit; SLURM then ends this process.

    Args:
        number: Signal that stopped the run.

    Returns:
        What was done or went wrong, for the user; None if there was nothing to do.
    """
    job = batch_job()
    if job is None or number not in ANNOUNCEMENTS:
        return None
    command = ["scontrol", "requeue", job]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{' '.join(command)} failed: {error}"
    if done.returncode:
        return f"{' '.join(command)} failed: {(done.stderr or done.stdout).strip()}"
    return f"SLURM job {job} is queued again and will resume."
