"""Stages of a run: composed from their experiments, and named where several runs share them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from sts_lightning.config.constraints import check_config
from sts_lightning.config.identity import configuration_hash
from sts_lightning.config.keys import flat_keys, stage_overrides, suggest, unknown_key
from sts_lightning.errors import ConfigError

Compose = Callable[[list[str]], DictConfig]
"""Function that composes the configuration of train.py from overrides."""


def compose_stages(cfg: DictConfig, overrides: Sequence[str], compose: Compose) -> dict[str, DictConfig]:
    """Compose each stage from its experiment, the command line, and its own settings, in this order.

    Args:
        cfg: Configuration of the run, with ``stages``.
        overrides: Overrides of the command line.
        compose: Function that composes a configuration.

    Returns:
        Configurations by name, in order; checked, but their interpolations are not resolved.

    Raises:
        ConfigError: A stage has no experiment, or a setting that does not exist or has a wrong value.
    """
    composed = {}
    for name, settings in cfg.stages.items():
        own: Any = OmegaConf.to_container(settings)
        experiment = own.pop("experiment", None)
        if experiment is None:
            raise ConfigError(f"stages.{name}.experiment is missing.", key=f"stages.{name}.experiment")
        base = compose(stage_overrides(overrides, experiment))
        try:
            stage = OmegaConf.merge(base, own)
        except (ConfigAttributeError, ConfigKeyError) as error:
            key = str(error.full_key)
            raise unknown_key(f"stages.{name}.{key}", suggest(key, flat_keys(base))) from error
        except OmegaConfBaseException as error:
            raise ConfigError(
                f"stages.{name}: {str(error).splitlines()[0]}", key=f"stages.{name}.{error.full_key}"
            ) from error
        assert isinstance(stage, DictConfig)
        stage.name = f"{cfg.name}-{name}"
        check_config(stage)  # a stage that runs share would train for hours before a later one is built
        composed[str(name)] = stage
    return composed


def share_stages(stages: Mapping[str, DictConfig]) -> dict[str, str]:
    """Name the folders of the stages that several runs may share: all but the last.

    A folder is named after the stage and a hash of what it trains, the stages before it included. Its run is
    called the same, since the name of whichever run trains it would be misleading.

    Args:
        stages: Configurations of the stages by name, in order, not resolved; renamed in place.

    Returns:
        Names of the folders, by stage.
    """
    folders: dict[str, str] = {}
    previous: str | None = None
    for name in list(stages)[:-1]:
        cfg = copy.deepcopy(stages[name])
        cfg.init_from = previous or cfg.init_from
        previous = f"{name}-{configuration_hash(cfg, named=False)}"
        folders[name] = previous
        stages[name].name = previous
    return folders
