"""Configurations of the stages of a run."""

from __future__ import annotations

from typing import Any

from hydra import compose
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.keys import stage_overrides
from sts_lightning.config.validate import check_config
from sts_lightning.errors import ConfigError


def compose_stages(cfg: DictConfig, overrides: list[str]) -> dict[str, DictConfig]:
    """Compose each stage from its experiment, the command line, and its own settings, in this order.

    Raises:
        ConfigError: A stage has no experiment, or a setting that does not exist.
    """
    composed = {}
    for name, settings in cfg.stages.items():
        own: Any = OmegaConf.to_container(settings)
        experiment = own.pop("experiment", None)
        if experiment is None:
            raise ConfigError(f"stages.{name}.experiment is missing.", key=f"stages.{name}.experiment")
        try:
            stage = OmegaConf.merge(compose("train", stage_overrides(overrides, experiment)), own)
        except OmegaConfBaseException as error:
            raise ConfigError(f"stages.{name}: {str(error).splitlines()[0]}") from error
        assert isinstance(stage, DictConfig)
        stage.name = f"{cfg.name}-{name}"
        composed[str(name)] = check_config(stage)
    return composed
