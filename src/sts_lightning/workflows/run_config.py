"""The configuration of an earlier run that is resumed."""

from __future__ import annotations

import logging

from hydra import compose
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.keys import flat_keys
from sts_lightning.config.trust import NOTHING, Trust
from sts_lightning.errors import CheckpointError
from sts_lightning.runs.folder import RunFolder

log = logging.getLogger(__name__)

UNTYPED = ("model", "loss", "regularizer", "companion", "data", "logger", "callbacks", "published")
"""Parts of the configuration whose keys differ by choice."""


def load_run_config(run: RunFolder, trust: Trust = NOTHING) -> DictConfig:
    """Read the configuration of a run to resume; settings added after the run was created get their defaults.

    Args:
        run: The run folder.
        trust: The user's word on what it may ask for.

    Raises:
        CheckpointError: It cannot be read, or has a setting that this version does not know.
        UntrustedError: It asks for more than the user allows.
    """
    cfg = run.load_config(trust)
    complete = compose("train")
    added: list[str] = []
    try:
        with open_dict(complete):
            # Their defaults are in the signatures of their targets.
            for group in sorted(set(UNTYPED) & set(cfg)):
                complete[group] = cfg[group]
        OmegaConf.set_struct(complete.trainer.extra, False)  # its keys are those of Lightning's Trainer
        added = sorted(set(flat_keys(complete)) - set(flat_keys(cfg)))
        merged = OmegaConf.merge(complete, cfg)
    except OmegaConfBaseException as error:
        reason = str(error).splitlines()[0]
        raise CheckpointError(
            f"{run.config_file}: {error.full_key}: {reason}", key=str(error.full_key)
        ) from error
    companion = run.settings().get("companion") or {}
    if companion.get("cache_dir") and not cfg.companion.cache_dir:
        log.warning(
            "WARNING: %s would write vectors to companion.cache_dir=%s, which is left out without your word: "
            "trust=[companion.cache_dir].",
            run.name,
            companion["cache_dir"],
        )
    if added:
        log.info("using defaults for settings added after this run was created: %s", ", ".join(added))
    assert isinstance(merged, DictConfig)
    return merged
