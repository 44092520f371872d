"""What the jobs of a sweep may use on one machine."""

from __future__ import annotations

import os

from omegaconf import DictConfig

from sts_lightning.errors import ConfigError, UserError
from sts_lightning.sweep.job import Slot


def check_devices(cfg: DictConfig, gpus_per_job: int) -> None:
    """Refuse a job that would get fewer GPUs than it trains on.

    Args:
        cfg: The job's configuration.
        gpus_per_job: What it would get.

    Raises:
        ConfigError: It would, or it is one for several machines.
    """
    trainer = cfg.get("trainer")
    if trainer is None:
        return
    if trainer.num_nodes > 1:
        raise ConfigError(
            f"trainer.num_nodes={trainer.num_nodes}: a job of a sweep (-m) runs on one machine; "
            "run it without -m."
        )
    needed = max(1, trainer.devices)
    if trainer.accelerator == "gpu" and needed > gpus_per_job:
        raise ConfigError(
            f"trainer.devices={trainer.devices}, but each job of the sweep gets {gpus_per_job} GPUs; "
            f"add hydra.launcher.gpus_per_job={needed}."
        )


def make_slots(jobs: int | None, gpus_per_job: int, accelerator: str) -> list[Slot]:
    """Who may run at the same time, and on what.

    Args:
        jobs: How many at a time, or None for as many as there are GPUs, or pairs of cores without.
        gpus_per_job: GPUs of each job.
        accelerator: The trainer's; ``cpu`` jobs get no GPU.

    Raises:
        UserError: There are fewer GPUs than that.
    """
    gpus = _visible_gpus() if accelerator != "cpu" else []
    cores = len(os.sched_getaffinity(0))
    if gpus:
        groups = [gpus[start : start + gpus_per_job] for start in range(0, len(gpus), gpus_per_job)]
        groups = [group for group in groups if len(group) == gpus_per_job][:jobs]
        if not groups:
            raise UserError(f"hydra.launcher.gpus_per_job={gpus_per_job}, but {len(gpus)} GPUs are visible.")
        count = len(groups)
        pinned = [{"CUDA_VISIBLE_DEVICES": ",".join(group)} for group in groups]
    else:
        count = jobs or max(1, cores // 2)
        pinned = [{} for _ in range(count)]
    threads = str(max(1, cores // count))
    return [Slot({**variables, "OMP_NUM_THREADS": threads}) for variables in pinned]


def _visible_gpus() -> list[str]:
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [name for name in given.split(",") if name]
    import torch

    return [str(index) for index in range(torch.cuda.device_count())]
