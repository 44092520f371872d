"""Jobs of a sweep on a Ray cluster."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any

from sts_lightning.errors import ConfigError, UserError
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

    Args:
        jobs: What is run.
        address: Of the cluster; None: that of the environment, or one that is started on this machine.
        cpus: Cores that each job is given.
        gpus_per_job: GPUs that each job is given and sees; None: as many as its configuration asks
            for, if the cluster has any.
        timeout_minutes: After which a job is stopped; None: never.

    Raises:
        ConfigError: Ray is not installed, or the cluster cannot be reached.
    """
    try:
        import ray
    except ImportError as error:
        raise ConfigError("hydra/launcher=ray needs Ray: pip install 'sts-lightning[ray]'.") from error
    if not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise ConfigError(f"hydra.launcher.address={address}: {str(error).splitlines()[0]}") from error
    room: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    if cpus > room.get("CPU", 0):
        raise ConfigError(
            f"a job wants {cpus:g} CPUs, and Ray's cluster has {room.get('CPU', 0):g}; it would never start."
        )
    gpus = [gpus_for(job.demand, int(room.get("GPU", 0)), gpus_per_job) for job in jobs]

    def call(remote: RemoteJob, threads: int) -> Job:
        os.environ["OMP_NUM_THREADS"] = str(threads)
        return remote()

    # A fresh worker for each, so that no job meets what another has left.
    task = ray.remote(num_cpus=cpus, max_calls=1, max_retries=0)(call)
    threads = max(1, int(cpus))
    return [
        _RayHandle(task.options(num_gpus=count).remote(RemoteJob(job, timeout_minutes), threads))
        for job, count in zip(jobs, gpus, strict=True)
    ]


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
