"""The configuration of an earlier run that is resumed."""

from __future__ import annotations

from hydra import compose
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.keys import flat_keys
from sts_lightning.config.trust import NOTHING, Trust
from sts_lightning.runs.folder import RunFolder

UNTYPED = ("model", "loss", "regularizer", "companion", "data", "logger", "callbacks", "published")
"""Parts of the configuration whose keys differ by choice."""


def load_run_config(run: RunFolder, trust: Trust = NOTHING) -> DictConfig:
    """Read the configuration of a run to resume.

    Args:
        run: The run folder.
        trust: The user's word on what it may ask for.

    Raises:
        CheckpointError: It cannot be read, or has other settings than those of this version.
        UntrustedError: It asks for more than the user allows.
    """
    cfg = run.load_config(trust)
    complete = compose("train")
    try:
        with open_dict(complete):
            # Their defaults are in the signatures of their targets.
            for group in sorted(set(UNTYPED) & set(cfg)):
                complete[group] = cfg[group]
        OmegaConf.set_struct(complete.trainer.extra, False)  # its keys are those of Lightning's Trainer
        missing = sorted(set(flat_keys(complete)) - set(flat_keys(cfg)))
        merged = OmegaConf.merge(complete, cfg)
    except OmegaConfBaseException as error:
        raise run.of_another_version(str(error.full_key)) from error
    if missing:
        raise run.of_another_version(missing[0])
    assert isinstance(merged, DictConfig)
    return merged
