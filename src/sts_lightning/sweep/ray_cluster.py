"""Jobs of a sweep on a Ray cluster."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sts_lightning.errors import ConfigError, UserError
from sts_lightning.interrupts import handlers_kept
from sts_lightning.sweep.cluster import Handle, RemoteJob
from sts_lightning.sweep.job import Job, State
from sts_lightning.sweep.resources import gpus_for


def submit_to_ray(
    jobs: Sequence[Job],
    address: str | None,
    cpus: float,
    gpus_per_job: int | None,
    timeout_minutes: float | None,
) -> list[Handle]:
    """Submit jobs to a Ray cluster; each waits until the cluster has room for it.

    A job that starts from shared stages is not placed, and holds nothing, before these have ended.

    Args:
        jobs: Jobs of the sweep, shared stages before the jobs that need them.
        address: Address of the cluster; None: that of the environment, or a new cluster on this machine.
        cpus: Number of cores of each job.
        gpus_per_job: Number of GPUs assigned to each job; None: the demand of the job decides, if the cluster
            has any.
        timeout_minutes: Time limit of each job, after which it is killed; None: no limit.

    Raises:
        ConfigError: Ray is not installed, or the cluster cannot be reached.
    """
    try:
        import ray
    except ImportError as error:
        raise ConfigError("hydra/launcher=ray needs Ray: pip install 'sts-lightning[ray]'.") from error
    if not ray.is_initialized():
        try:
            with handlers_kept():  # Ray's own for SIGTERM would end the sweep without cancelling its jobs
                ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise ConfigError(f"hydra.launcher.address={address}: {str(error).splitlines()[0]}") from error
    room: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    if cpus > room.get("CPU", 0):
        raise ConfigError(
            f"a job needs {cpus:g} CPUs, but the Ray cluster has {room.get('CPU', 0):g}; reduce "
            "hydra.launcher.cpus_per_job."
        )
    gpus = [gpus_for(job.demand, int(room.get("GPU", 0)), gpus_per_job) for job in jobs]

    def call(remote: RemoteJob, threads: int, *_: Job) -> Job:
        os.environ["OMP_NUM_THREADS"] = str(threads)
        return remote()

    # A new worker for each job, so that no state is shared.
    task = ray.remote(num_cpus=cpus, max_calls=1, max_retries=0)(call)
    threads = max(1, int(cpus))
    references: dict[Path, Any] = {}
    for job, count in zip(jobs, gpus, strict=True):
        stages = [references[need] for need in job.needs if need in references]  # Ray waits for arguments
        remote = RemoteJob(job, timeout_minutes)
        references[job.folder] = task.options(num_gpus=count).remote(remote, threads, *stages)
    return [_RayHandle(references[job.folder]) for job in jobs]


class _RayHandle:
    def __init__(self, reference: Any) -> None:
        self.reference = reference

    def state(self) -> State:
        import ray

        ready, _ = ray.wait([self.reference], timeout=0)
        return "done" if ready else "running"

    def result(self) -> Job:
        import ray

        try:
            found: Job = ray.get(self.reference)
        except ray.exceptions.RayError as error:
            raise UserError(f"Ray: {str(error).strip().splitlines()[-1]}") from error
        return found

    def cancel(self) -> None:
        import ray

        ray.cancel(self.reference, force=True)
