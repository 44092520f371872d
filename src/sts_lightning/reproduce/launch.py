"""Launchers of sweeps, for the runs of a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.errors import HydraException
from hydra.utils import instantiate
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.compose import compose_job, explain
from sts_lightning.config.keys import path_override
from sts_lightning.errors import ConfigError
from sts_lightning.reproduce.run import RunJobs


def open_launcher(name: str, settings: Sequence[str], root: Path) -> RunJobs:
    """Return a function that runs jobs as ``hydra/launcher=name`` does in a sweep.

    Args:
        name: ``process``, ``slurm`` or ``ray``.
        settings: Settings of the launcher, such as ``partition=gpu``.
        root: Parent of the run folders, and of the launcher's own files.

    Raises:
        ConfigError: The launcher or a setting does not exist.
    """
    overrides = (
        f"hydra/launcher={name}",
        path_override("hydra.sweep.dir", root),
        *(f"hydra.launcher.{setting}" for setting in settings),
    )
    try:
        cfg = compose_job("train", overrides)
        launcher: Any = instantiate(cfg.hydra.launcher)
    except (HydraException, OmegaConfBaseException) as error:
        cause = explain(error, "train", overrides)
        raise ConfigError(f"--launcher {name}: {cause}", key=cause.key) from error
    if getattr(launcher, "part", None) not in (None, "0/1"):
        raise ConfigError("part divides a sweep, and has no effect on a table.", key="hydra.launcher.part")
    launcher.config = cfg
    run_jobs: RunJobs = launcher.run_jobs
    return run_jobs
