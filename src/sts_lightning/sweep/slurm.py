"""Jobs of a sweep as an array of SLURM's, through submitit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sts_lightning.errors import ConfigError, UserError
from sts_lightning.sweep.cluster import Handle, RemoteJob
from sts_lightning.sweep.job import Job, State


def submit_to_slurm(
    jobs: Sequence[Job], folder: Path, cluster: str | None, **parameters: Any
) -> list[Handle]:
    """Submit jobs as one SLURM array.

    Args:
        jobs: What is run.
        folder: For submitit's own files.
        cluster: ``slurm``, ``local`` (processes of this machine, to try things out), or None: SLURM if there
            is one.
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
    with executor.batch():
        submitted = [executor.submit(RemoteJob(job)) for job in jobs]
    return [_SlurmHandle(handle) for handle in submitted]


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
