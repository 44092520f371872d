"""Jobs of a sweep as an array of SLURM's, through submitit."""

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

    A job that uses a GPU where there is one is given one: the machine that submits need not have any.

    Args:
        jobs: What is run.
        folder: For submitit's own files.
        cluster: ``slurm``, ``local`` (processes of this machine, to try things out), or None: SLURM if there
            is one.
        gpus_per_job: GPUs of each job that uses any; None: as many as its configuration asks for.
        **parameters: Of submitit's executor, such as ``timeout_min`` or ``slurm_partition``.

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
    """GPUs to ask SLURM for; ``devices=-1`` means those of a node, whose number has to be given."""
    if job.demand.gpus == -1 and per_job is None:
        raise ConfigError("trainer.devices=-1 on SLURM: say how many by hydra.launcher.gpus_per_job=...")
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
