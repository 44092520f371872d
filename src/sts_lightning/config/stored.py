"""Configurations in run folders, read as plain values from which nothing is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.core.errors import CheckpointError


def read_settings(path: Path) -> dict[Any, Any]:
    """Return the configuration in a file, its interpolations not resolved.

    Raises:
        CheckpointError: The file cannot be read, or is no configuration.
    """
    try:
        cfg = OmegaConf.load(path)
    except (yaml.YAMLError, OmegaConfBaseException, ValueError, OSError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
    values = OmegaConf.to_container(cfg)
    if not isinstance(values, dict) or not values:
        raise CheckpointError(f"{path} is not a configuration: it has no keys.")
    return values
