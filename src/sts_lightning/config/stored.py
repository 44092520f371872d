"""Configurations in run folders, read as plain values from which nothing is built."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.core.errors import CheckpointError

SHARED = "shared"
"""Key of a stage in the file of the stages: the name of its folder, if other runs share it."""


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


def stage_folders(path: Path) -> dict[str, str | None]:
    """Return the stages in their file, in order, each with the name of its folder if other runs share it.

    Raises:
        CheckpointError: The file cannot be read, or a name would lead out of its folder.
    """
    folders: dict[str, str | None] = {}
    for name, stage in read_settings(path).items():
        if not isinstance(stage, Mapping):
            raise CheckpointError(f"{path}: {name} is not the configuration of a stage.")
        shared = folders[name] = stage.get(SHARED)
        for folder in (name, name if shared is None else shared):
            if not isinstance(folder, str) or not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", folder):
                raise CheckpointError(
                    f"{path}: {folder!r} is not the name of a stage: letters, digits, '_', '-' and '.' only."
                )
    return folders
