"""Jobs of a sweep on a Ray cluster with a shared file system; settings: ``conf/hydra/launcher/ray.yaml``."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, cast

import ray

from sts_lightning.core.errors import ConfigError, UserError
from sts_lightning.core.signals import listen_again
from sts_lightning.sweep.gpu_pool import gpus_for
from sts_lightning.sweep.job import Job, State
from sts_lightning.sweep.local import RemoteJob
from sts_lightning.sweep.watch import Start


def on_ray(
    jobs: Sequence[Job],
    address: str | None,
    cpus: float,
    gpus_per_job: int | None,
    timeout_minutes: float | None,
    jobs_per_gpu: int = 1,
) -> Start:
    """Return a function that hands a job to a Ray cluster, where it waits until the cluster has room for it.

    Args:
        jobs: Jobs of the sweep.
        address: Address of the cluster; None: that of the environment, or a new cluster on this machine.
        cpus: Number of cores of each job.
        gpus_per_job: Number of GPUs assigned to each job; None: the demand of the job decides, if the cluster
            has any.
        timeout_minutes: Time limit of each job, after which it saves its state and ends; None: no limit.
        jobs_per_gpu: Number of jobs of one GPU that share it.

    Raises:
        ConfigError: The cluster cannot be reached or has no room.
    """
    try:
        ray.init(address, ignore_reinit_error=True, log_to_driver=False, logging_level=logging.WARNING)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ConfigError(f"hydra.launcher.address={address}: {str(error).splitlines()[0]}") from error
    listen_again()  # Ray's own handler of SIGTERM would end the sweep without cancelling its jobs
    room: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    if cpus > room.get("CPU", 0):  # it would wait for ever
        text = f"a job needs {cpus:g} CPUs, but the Ray cluster has {room.get('CPU', 0):g}."
        raise ConfigError(text, hint="Reduce hydra.launcher.cpus_per_job.")
    gpus = {job.folder: gpus_for(job.demand, int(room.get("GPU", 0)), gpus_per_job) for job in jobs}
    # A new worker for each job, so that no state is shared.
    task: Any = ray.remote(num_cpus=cpus, max_calls=1, max_retries=0)(RemoteJob.__call__)
    threads = {"OMP_NUM_THREADS": str(max(1, int(cpus)))}

    def start(job: Job) -> _RayHandle:
        share = 1 / jobs_per_gpu if gpus[job.folder] == 1 else gpus[job.folder]
        return _RayHandle(task.options(num_gpus=share).remote(RemoteJob(job, threads, timeout_minutes)))

    return start


class _RayHandle:
    def __init__(self, reference: Any) -> None:
        self.reference = reference

    def state(self) -> State:
        ready, _ = ray.wait([self.reference], timeout=0)
        return "done" if ready else "running"

    def result(self) -> Job:
        try:
            return cast("Job", ray.get(self.reference))
        except ray.exceptions.RayError as error:
            raise UserError(f"Ray: {str(error).strip().splitlines()[-1]}") from error

    def cancel(self) -> None:
        ray.cancel(self.reference)  # by force, Ray would kill the processes of the job too
