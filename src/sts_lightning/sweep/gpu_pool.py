"""GPUs and cores: the demand of jobs, and the pool of this machine.

What a job gets on a cluster is set in ``conf/hydra/launcher/slurm.yaml`` and ``ray.yaml``.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from omegaconf import DictConfig

from sts_lightning.core.errors import ConfigError
from sts_lightning.sweep.job import ENDED, Demand, Job


def demand_of(cfg: DictConfig) -> Demand:
    """Return the GPUs requested by a composed configuration of ``train.py`` or ``eval.py``.

    Raises:
        ConfigError: The configuration asks for several machines.
    """
    machine = cfg.get("trainer") or cfg  # an evaluation has one device
    if machine.get("num_nodes", 1) > 1:
        text = f"trainer.num_nodes={machine.num_nodes}: a job of a sweep runs on one machine."
        raise ConfigError(text, hint="Run it without -m.")
    if machine.accelerator in ("cpu", "mps"):
        return Demand()
    required = machine.accelerator == "gpu" or not machine.get("cpu_fallback", True)
    return Demand(machine.get("devices", 1), required)


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
    given = per_job if per_job is not None else demand.gpus if demand.gpus > 0 else max(1, available)
    if demand.gpus > given and (demand.required or given):
        raise ConfigError(
            f"trainer.devices={demand.gpus}, but each job of the sweep gets {given} GPUs; "
            f"add hydra.launcher.gpus_per_job={demand.gpus}."
        )
    if given > available:
        raise ConfigError(f"a job of the sweep needs {given} GPUs, but {available} are visible.")
    return given


@dataclass
class Pool:
    """GPUs and cores of this machine, assigned to jobs.

    Attributes:
        gpus: Names of the GPUs, as in ``CUDA_VISIBLE_DEVICES``.
        cores: Number of available cores.
        limit: Maximum number of jobs at a time; None: as many as the GPUs allow, and one for each two cores
            without a GPU.
        per_job: Number of GPUs of each job that uses any; None: the demand of the job decides.
        sharing: Number of jobs that share a GPU.
        threads: Number of threads of a job.
        taken: Jobs with their GPUs, which are free again once the job has ended.
    """

    gpus: Sequence[str]
    cores: int
    limit: int | None = None
    per_job: int | None = None
    sharing: int = 1
    threads: int = field(init=False, default=1)
    taken: list[tuple[Job, list[str]]] = field(init=False, default_factory=list)

    def set_width(self, jobs: Iterable[Job]) -> int:
        """Set the number of threads of each job, and return the maximum number of jobs at a time.

        Raises:
            ConfigError: A job needs more GPUs than there are.
        """
        needs = sorted(gpus_for(job.demand, len(self.gpus), self.per_job) for job in jobs)
        on_gpus = sum(total <= len(self.gpus) * self.sharing for total in accumulate(filter(None, needs)))
        width = on_gpus + min(needs.count(0), self.limit or max(1, self.cores // 2))
        width = max(1, min(width, self.limit or width))
        self.threads = max(1, self.cores // width)
        return width

    def take(self, job: Job) -> dict[str, str] | None:
        """Assign GPUs and threads to a job as environment variables; return None if it has to wait."""
        need = gpus_for(job.demand, len(self.gpus), self.per_job)
        self.taken = [(other, gpus) for other, gpus in self.taken if other.state not in ENDED]
        used = Counter(gpu for _, gpus in self.taken for gpu in gpus)
        # Each has a first job before any has a second one.
        free = sorted((gpu for gpu in self.gpus if used[gpu] < self.sharing), key=lambda gpu: used[gpu])
        if need > len(free):
            return None
        self.taken.append((job, free[:need]))
        variables = {"OMP_NUM_THREADS": str(min(self.threads, _allowed_threads()))}
        if self.gpus:  # a job on the CPU must not use the GPU of another
            variables["CUDA_VISIBLE_DEVICES"] = ",".join(free[:need])
        return variables


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
    names = [str(index) for index in range(count)] if given is None else given.replace(" ", "").split(",")
    return names if count and names[0].startswith("MIG-") else names[:count]
