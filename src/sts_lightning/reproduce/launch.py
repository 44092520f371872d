"""Where the runs of a table are carried out: by any launcher of the sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.errors import HydraException
from hydra.utils import instantiate
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.errors import ConfigError
from sts_lightning.reproduce.plan import compose_job
from sts_lightning.reproduce.run import CarryOut


def open_launcher(name: str, settings: Sequence[str], conf: Path, root: Path) -> CarryOut:
    """What runs jobs as ``hydra/launcher=name`` does in a sweep.

    Args:
        name: ``process``, ``slurm`` or ``ray``.
        settings: Its settings, such as ``partition=gpu``.
        conf: The folder of the configuration.
        root: Of the runs; the launcher's own files go there too.

    Raises:
        ConfigError: There is no such launcher or setting.
    """
    overrides = (
        f"hydra/launcher={name}",
        f"hydra.sweep.dir={root}",
        *(f"hydra.launcher.{setting}" for setting in settings),
    )
    try:
        cfg = compose_job(conf, "train", overrides)
        launcher: Any = instantiate(cfg.hydra.launcher)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(f"--launcher {name}: {' '.join(str(error.__cause__ or error).split())}") from error
    launcher.config = cfg
    carry_out: CarryOut = launcher.carry_out
    return carry_out
