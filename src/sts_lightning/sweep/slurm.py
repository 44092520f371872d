"""Jobs of a sweep submitted to SLURM through submitit, on a shared file system.

A job runs in the working directory of the sweep, with the same Python, and its run folder is that of a local
sweep, so that local and cluster sweeps resume each other's runs. Cores, memory, time limit and partition:
``conf/hydra/launcher/slurm.yaml``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import submitit
from submitit.core.utils import FailedJobError, UncompletedJobError
from submitit.helpers import DelayedSubmission
from submitit.slurm.slurm import SlurmInfoWatcher

from sts_lightning.core.errors import ConfigError, UserError
from sts_lightning.sweep.gpu_pool import gpus_for
from sts_lightning.sweep.job import Job, State
from sts_lightning.sweep.local import RemoteJob
from sts_lightning.sweep.watch import Start


def on_slurm(jobs: Sequence[Job], folder: Path, per_job: int | None = None, **parameters: Any) -> Start:
    """Return a function that submits a job to SLURM.

    A job that can use a GPU gets one, whether or not the submitting machine has any.

    Args:
        jobs: Jobs of the sweep.
        folder: Folder of submitit's own files.
        per_job: Number of GPUs of each job that uses any; None: the demand of the job decides.
        **parameters: Parameters of submitit's executor, such as ``timeout_min`` or ``slurm_partition``.

    Raises:
        ConfigError: There is no SLURM, or submitit rejects a parameter.
    """
    if per_job is None and any(job.demand.gpus == -1 for job in jobs):  # all of a node
        raise ConfigError("trainer.devices=-1 on SLURM: add hydra.launcher.gpus_per_job=...")
    gpus = {job.folder: gpus_for(job.demand, per_job or max(job.demand.gpus, 0), per_job) for job in jobs}
    try:
        # One for each number of GPUs: settings of an executor cannot be taken back.
        executors = {count: submitit.AutoExecutor(folder, cluster="slurm") for count in set(gpus.values())}
        for count, executor in executors.items():
            executor.update_parameters(**parameters, gpus_per_node=count or None)  # some clusters reject 0
    except (RuntimeError, NameError, ValueError, TypeError) as error:
        raise ConfigError(f"hydra.launcher: {error}") from error
    queue = _Queue(delay_s=10)

    def start(job: Job) -> _SlurmHandle:
        try:
            submitted = executors[gpus[job.folder]].submit(SlurmJob(job))
        except FailedJobError as error:  # sbatch says why: no such partition, no GPUs, no account
            raise UserError(f"hydra.launcher: {' '.join(str(error).split())}") from error
        submitted.watcher = queue
        return _SlurmHandle(submitted)

    return start


class SlurmJob(RemoteJob):
    """A job that SLURM may stop and queue again."""

    def __call__(self) -> Job:
        """Run the job and return it with its outcome, unless it was stopped."""
        job = super().__call__()
        if job.state == "stopped":  # the result of a preempted job, which goes on later, would end the wait
            sys.exit(job.problem)
        return job

    def checkpoint(self) -> DelayedSubmission:
        """Save the state and return what is queued again: submitit's hook, shortly before a time limit."""
        self.process.stop()
        return DelayedSubmission(SlurmJob(self.job, folder=self.folder))


class _Queue(SlurmInfoWatcher):
    """States of this user's jobs from squeue.

    submitit asks sacct, which fails on a cluster without accounting: a job that is cancelled there would be
    waited for without end.
    """

    STATES = "--states=PENDING,RUNNING,SUSPENDED,COMPLETING"  # the default, which a variable may change

    def _make_command(self) -> list[str]:
        return ["squeue", "--me", "--noheader", self.STATES, "--format=%i %T"]

    def read_info(self, string: bytes) -> dict[str, dict[str, str]]:  # type: ignore[override]
        listed: dict[str, str] = dict(map(str.split, string.decode().splitlines()))
        return {number: {"State": listed.get(number, "ENDED")} for number in self._registered}

    def is_done(self, job_id: str, mode: str = "standard") -> bool:
        return bool(self.get_state(job_id, mode) == "ENDED")


class _SlurmHandle:
    def __init__(self, job: Any) -> None:
        self.job = job

    def state(self) -> State:
        if self.job.done():
            return "done"
        return "queued" if self.job.state == "PENDING" else "running"

    def result(self) -> Job:
        try:
            return cast("Job", self.job.result())
        except UncompletedJobError as error:
            printed = (self.job.stderr() or "").strip().splitlines()
            why = ["it was cancelled, or its node failed", *printed][-1]
            raise UserError(f"SLURM job {self.job.job_id} ended without a result: {why}") from error

    def cancel(self) -> None:
        self.job.cancel(check=False)
