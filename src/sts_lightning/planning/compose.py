"""Configurations of `train.py` outside a Hydra job: one, or one for each stage."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from hydra import compose
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.composing import composing
from sts_lightning.config.composition_errors import explain
from sts_lightning.config.constraints import check_config
from sts_lightning.config.stages import compose_stages


def compose_runs(overrides: Sequence[str]) -> dict[str, DictConfig]:
    """Compose what ``python train.py`` would run, by stage; a run without stages has the name ``run``.

    Args:
        overrides: Overrides as on the command line of ``train.py``.

    Raises:
        ConfigError: A setting or a choice does not exist.
    """
    texts = list(overrides)
    if not any(text.startswith("name=") for text in texts):
        texts.append("name=plan")  # names of choices are known in a Hydra job only
    try:
        with composing():
            cfg = compose("train", texts)
            if cfg.stages:
                stages = compose_stages(cfg, texts, partial(compose, "train"))
                return {name: _alone(check_config(stage)) for name, stage in stages.items()}
    except (HydraException, OmegaConfBaseException) as error:
        raise explain(error, "train", texts) from error
    return {"run": cfg}


def _alone(stage: DictConfig) -> DictConfig:
    """Let a stage start from no other: there is no run to start from yet, and the cost is the same."""
    stage.init = "best"
    return stage
