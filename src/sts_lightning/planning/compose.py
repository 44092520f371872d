"""Configurations of `train.py` and `eval.py` outside a Hydra job."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from hydra import compose
from hydra.errors import HydraException
from omegaconf import DictConfig, open_dict
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.conf_folders import folders
from sts_lightning.config.composing import composing
from sts_lightning.config.composition_errors import explain
from sts_lightning.config.constraints import check_config
from sts_lightning.config.stages import compose_stages
from sts_lightning.entry_points import Entry


def compose_job(entry: Entry, overrides: tuple[str, ...]) -> DictConfig:
    """Compose the configuration of a job with the ``hydra`` node. The result is cached: do not modify it."""
    return _composed(entry, overrides, folders())


@cache  # composing takes a third of a second
def _composed(entry: Entry, overrides: tuple[str, ...], _folders: tuple[Path, ...]) -> DictConfig:
    with composing():
        return compose(entry, list(overrides), return_hydra_config=True)


def compose_runs(overrides: Sequence[str]) -> dict[str, DictConfig]:
    """Compose what ``python train.py`` would run, by stage; a run without stages has the name ``run``.

    Args:
        overrides: Overrides as on the command line of ``train.py``.

    Raises:
        ConfigError: A setting or a choice does not exist.
    """
    named = any(text.startswith("name=") for text in overrides)

    def composed(texts: Sequence[str]) -> DictConfig:
        cfg = compose_job("train", tuple(texts)).copy()
        with open_dict(cfg):
            del cfg["hydra"]
        if not named:
            cfg.name = "plan"  # else made of the names of choices, which are known in a Hydra job only
        return cfg

    try:
        cfg = composed(overrides)
        if not cfg.stages:
            return {"run": cfg}
        stages = compose_stages(cfg, overrides, composed)
    except (HydraException, OmegaConfBaseException) as error:
        raise explain(error, "train", overrides) from error
    return {name: _alone(check_config(stage)) for name, stage in stages.items()}


def _alone(stage: DictConfig) -> DictConfig:
    """Let a stage start from no other: there is no run to start from yet, and the cost is the same."""
    stage.init = "best"
    return stage
