"""GPUs and cores: the demand of jobs, and the pool of this machine.

What a job gets on a cluster is set in ``conf/hydra/launcher/slurm.yaml`` and ``ray.yaml``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable

from omegaconf import DictConfig

from sts_lightning.core.errors import ConfigError
from sts_lightning.sweep.job import Demand, Job, Resources


def demand_of(cfg: DictConfig) -> Demand:
    """Return the GPUs requested by a composed configuration of ``train.py`` or ``eval.py``.

    Raises:
        ConfigError: The configuration asks for several machines.
    """
    trainer = cfg.get("trainer")
    if trainer is None:
        none = cfg.accelerator in ("cpu", "mps")
        return Demand(0 if none else 1, required=cfg.accelerator == "gpu")
    if trainer.num_nodes > 1:
        raise ConfigError(
            f"trainer.num_nodes={trainer.num_nodes}: a job of a sweep (-m) runs on one machine; "
            "run it without -m."
        )
    if trainer.accelerator in ("cpu", "mps"):
        return Demand()
    return Demand(trainer.devices, required=trainer.accelerator == "gpu" or not trainer.cpu_fallback)


def gpus_for(demand: Demand, available: int, per_job: int | None = None) -> int:
    """Return the number of GPUs that a job gets on a machine or cluster.

    Args:
        demand: GPUs requested by the job.
        available: Number of GPUs of the machine or cluster.
        per_job: ``gpus_per_job`` of the launcher; None: the demand decides.

    Raises:
        ConfigError: The job needs more than it would get.
    """
    if not demand.gpus or (not available and not demand.required):
        return 0
    wanted = demand.gpus if demand.gpus > 0 else per_job or max(1, available)
    if per_job is not None and wanted > per_job and (demand.required or per_job):
        raise ConfigError(
            f"trainer.devices={demand.gpus}, but each job of the sweep gets {per_job} GPUs; "
            f"add hydra.launcher.gpus_per_job={wanted}."
        )
    given = wanted if per_job is None else per_job
    if given > available:
        raise ConfigError(f"a job of the sweep needs {given} GPUs, but {available} are visible.")
    return given


def check_sharing(jobs_per_gpu: int, needs: Iterable[int]) -> None:
    """Reject jobs of several GPUs where jobs share GPUs.

    Args:
        jobs_per_gpu: See ``conf/hydra/launcher/process.yaml``.
        needs: Number of GPUs of each job.

    Raises:
        ConfigError: A job needs several.
    """
    if jobs_per_gpu > 1 and (need := max(needs, default=0)) > 1:
        raise ConfigError(
            f"hydra.launcher.jobs_per_gpu={jobs_per_gpu} is for jobs of one GPU, but one gets {need}.",
            key="hydra.launcher.jobs_per_gpu",
            hint="Leave it out, or give each job one: trainer.devices=1.",
        )


class Pool:
    """GPUs and cores of this machine, assigned to jobs.

    Args:
        gpus: Names of the GPUs, as in ``CUDA_VISIBLE_DEVICES``.
        cores: Number of available cores.
        limit: Maximum number of jobs at a time; None: as many as the GPUs allow, and one for each two cores
            without a GPU.
        per_job: Number of GPUs of each job that uses any; None: the demand of the job decides.
        sharing: Number of jobs that share a GPU.
    """

    def __init__(
        self,
        gpus: Iterable[str],
        cores: int,
        limit: int | None = None,
        per_job: int | None = None,
        sharing: int = 1,
    ) -> None:
        self.gpus = list(gpus)
        self.cores = cores
        self.limit = limit
        self.per_job = per_job
        self.cpu_jobs = limit or max(1, cores // 2)
        self.sharing = sharing
        self._free = self.gpus * sharing  # each once, before the first has a second job
        self._on_cpu = 0
        self._running = 0
        self._threads = max(1, cores // self.cpu_jobs)

    def set_width(self, jobs: Iterable[Job]) -> int:
        """Set the number of threads of each job, and return the maximum number of jobs at a time.

        Raises:
            ConfigError: A job needs more GPUs than there are, or several where they are shared.
        """
        needs = sorted(gpus_for(job.demand, len(self.gpus), self.per_job) for job in jobs)
        check_sharing(self.sharing, needs)
        width = min(self.cpu_jobs, needs.count(0))
        left = len(self._free)
        for need in (need for need in needs if need):
            if need > left:
                break
            left -= need
            width += 1
        width = max(1, min(width, self.limit or width))
        self._threads = max(1, self.cores // width)
        return width

    def take(self, job: Job) -> Resources | None:
        """Assign GPUs and threads to a job; return None if it has to wait."""
        need = gpus_for(job.demand, len(self.gpus), self.per_job)
        full = self.limit is not None and self._running >= self.limit
        if full or need > len(self._free) or (not need and self._on_cpu >= self.cpu_jobs):
            return None
        taken, self._free = self._free[:need], self._free[need:]
        self._running += 1
        self._on_cpu += not need
        variables = {"OMP_NUM_THREADS": str(min(self._threads, _allowed_threads()))}
        if self.gpus:  # a job on the CPU must not use the GPU of another
            variables["CUDA_VISIBLE_DEVICES"] = ",".join(taken)
        return Resources(variables, tuple(taken))

    def give(self, resources: Resources) -> None:
        """Take back the resources of a job."""
        self._free += resources.gpus
        self._running -= 1
        self._on_cpu -= not resources.gpus


def _allowed_threads() -> float:
    """Return the limit that the user has set, which may name one for each level of nesting."""
    given = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(given) if given.isdecimal() and int(given) else math.inf


def visible_gpus() -> list[str]:
    """Return the names of the visible CUDA devices, as in ``CUDA_VISIBLE_DEVICES``.

    Of several slices of GPUs (MIG) a process sees one, and counts one; each job gets another.
    """
    from sts_lightning.core.hardware import cuda_devices

    count = cuda_devices()
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(index) for index in range(count)] if given is None else given.split(",")
    names = [name.strip() for name in names if name.strip()]
    slices = count > 0 and all(name.startswith("MIG-") for name in names)
    return names if slices else names[:count]
