"""Which process this is: the first of its run, its share of each batch, and the batch job that it is in."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import NamedTuple, Self

from sts_lightning.core.signals import PARENT


def is_first_process() -> bool:
    """Return whether this process writes the run folder: the only process of its run, or that of rank 0."""
    variables = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK")  # in Lightning's order
    rank = next((os.environ[name] for name in variables if name in os.environ), "0")
    return rank == "0" and os.environ.get("NODE_RANK", "0") == "0"


class Shard(NamedTuple):
    """The contiguous part of every batch that one process embeds.

    Attributes:
        process_rank: Number of the process, from 0.
        world_size: Number of processes.
    """

    process_rank: int = 0
    world_size: int = 1

    @classmethod
    def current(cls) -> Self:
        """Return the shard of this process; the whole batch if it trains alone."""
        from torch import distributed  # commands that start no training use this file too

        if distributed.is_available() and distributed.is_initialized():
            return cls(distributed.get_rank(), distributed.get_world_size())
        return cls()

    def slice_of(self, count: int) -> slice:
        """Return the slice of ``count`` examples that belongs to this process.

        The slices of all processes cover each example once. Their sizes differ by at most one, so some are
        empty if ``count`` is less than ``world_size``.
        """
        rank = self.process_rank
        return slice(count * rank // self.world_size, count * (rank + 1) // self.world_size)

    def size_of(self, count: int) -> int:
        """Return how many of ``count`` examples belong to this process."""
        return len(range(count)[self.slice_of(count)])

    def sizes(self, count: int) -> list[int]:
        """Return how many of ``count`` examples belong to each process."""
        return [Shard(process, self.world_size).size_of(count) for process in range(self.world_size)]


WHOLE_BATCH = Shard()
"""The shard of a process that trains alone."""


INTERACTIVE = ("bash", "interactive")
"""Names of jobs that SLURM gives to a shell."""

ANNOUNCEMENTS = tuple(getattr(signal, name) for name in ("SIGUSR1", "SIGUSR2") if hasattr(signal, name))
"""Signals by which SLURM announces a time limit (``--signal``); scancel and a preemption send SIGTERM."""

SCONTROL = 60.0
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
        done = subprocess.run(command, capture_output=True, text=True, timeout=SCONTROL, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{' '.join(command)} failed: {error}"
    if done.returncode:
        return f"{' '.join(command)} failed: {(done.stderr or done.stdout).strip()}"
    return f"SLURM job {job} is queued again and will resume."
