"""Configurations of the runs that a planned training job consists of."""

from __future__ import annotations

from collections.abc import Sequence

from omegaconf import DictConfig, open_dict

from sts_lightning.config.stages import compose_stages
from sts_lightning.reproduce.plan import compose_job

VARYING = ("seed", "init_from")
"""Settings that change no cost; without them the runs of a row are composed once."""


def train_configs(overrides: Sequence[str]) -> dict[str, DictConfig]:
    """Compose the runs of a job, without seed and earlier run.

    Args:
        overrides: Overrides of the job.

    Returns:
        Configurations by stage; the name of a run without stages is empty.
    """
    fixed = [text for text in overrides if text.partition("=")[0] not in VARYING]
    if not any(text.startswith("name=") for text in fixed):
        fixed.append("name=plan")  # names of choices are known in a Hydra job only

    def compose(texts: list[str]) -> DictConfig:
        cfg = compose_job("train", tuple(texts)).copy()
        with open_dict(cfg):
            cfg.pop("hydra")
        return cfg

    whole = compose(fixed)
    return compose_stages(whole, fixed, compose) if whole.stages else {"": whole}
