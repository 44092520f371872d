"""Jobs of a sweep as SLURM arrays, submitted through submitit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sts_lightning.errors import ConfigError, UserError
from sts_lightning.sweep.cluster import Handle, RemoteJob
from sts_lightning.sweep.job import Job, State
from sts_lightning.sweep.resources import gpus_for


def submit_to_slurm(
    jobs: Sequence[Job], folder: Path, cluster: str | None, gpus_per_job: int | None = None, **parameters: Any
) -> list[Handle]:
    """Submit jobs as SLURM arrays, one for each number of GPUs.

    A job that can use a GPU gets one, whether or not the submitting machine has any.

    Args:
        jobs: Jobs of the sweep.
        folder: Folder of submitit's own files.
        cluster: ``slurm``, ``local`` (processes of this machine, for trials), or None: SLURM if available.
        gpus_per_job: Number of GPUs of each job that uses any; None: the demand of the job decides.
        **parameters: Parameters of submitit's executor, such as ``timeout_min`` or ``slurm_partition``.

    Raises:
        ConfigError: submitit is not installed, there is no SLURM, or a parameter is unknown.
    """
    try:
        import submitit
    except ImportError as error:
        raise ConfigError(
            "hydra/launcher=slurm needs submitit: pip install 'sts-lightning[slurm]'."
        ) from error
    try:
        executor = submitit.AutoExecutor(folder=folder, cluster=cluster)
        executor.update_parameters(**parameters)
    except (RuntimeError, NameError, ValueError, TypeError) as error:
        raise ConfigError(f"hydra.launcher: {error}") from error
    needs = [_gpus(job, gpus_per_job) for job in jobs]
    handles: dict[int, Handle] = {}
    for gpus in sorted(set(needs)):
        members = [index for index, need in enumerate(needs) if need == gpus]
        if gpus:  # clusters without GPUs reject a request for none
            executor.update_parameters(gpus_per_node=gpus)
        with executor.batch():
            submitted = [executor.submit(RemoteJob(jobs[index])) for index in members]
        handles |= {index: _SlurmHandle(job) for index, job in zip(members, submitted, strict=True)}
    return [handles[index] for index in range(len(jobs))]


def _gpus(job: Job, per_job: int | None) -> int:
    """Return the number of GPUs to request; ``devices=-1`` (all of a node) needs an explicit number."""
    if job.demand.gpus == -1 and per_job is None:
        raise ConfigError(
            "trainer.devices=-1 on SLURM needs a number of GPUs: add hydra.launcher.gpus_per_job=..."
        )
    return gpus_for(job.demand, per_job if per_job is not None else max(job.demand.gpus, 0), per_job)


class _SlurmHandle:
    def __init__(self, job: Any) -> None:
        self.job = job

    def state(self) -> State:
        if self.job.done():
            return "done"
        return "running" if self.job.state == "RUNNING" else "queued"

    def result(self) -> Job:
        from submitit.core.utils import FailedJobError, UncompletedJobError

        try:
            found: Job = self.job.result()
        except (FailedJobError, UncompletedJobError) as error:
            lines = str(error).strip().splitlines()
            raise UserError(f"SLURM job {self.job.job_id}, {self.job.state}: {lines[-1]}") from error
        return found

    def cancel(self) -> None:
        self.job.cancel()
