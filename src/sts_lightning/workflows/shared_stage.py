"""Stages that several runs share: trained by the first run that needs one, while the others wait."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path

from omegaconf import DictConfig

from sts_lightning.config.trust import NOTHING, Trust, wanted
from sts_lightning.errors import ConfigError, RunningElsewhereError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.lock import holder
from sts_lightning.workflows.run_config import load_run_config
from sts_lightning.workflows.train import held, train_held

log = logging.getLogger(__name__)

POLL = 5.0
"""Seconds between two looks at a stage that another process trains."""

PATIENCE = 7 * 24 * 3600.0
"""Seconds to wait for a stage that another process trains."""


def run_shared_stage(
    folder: RunFolder,
    name: str,
    stages: Mapping[str, DictConfig],
    shared: Mapping[str, str],
    trust: Trust = NOTHING,
) -> float:
    """Run one stage that several runs share, as a job of its own.

    Args:
        folder: Its folder; the stages before it lie beside it.
        name: Name of the stage.
        stages: Configurations of all stages by name, in order.
        shared: Names of the folders of shared stages, by stage.
        trust: The user's word on what the folders may ask for; what ``stages`` name themselves is included.

    Returns:
        Dev Spearman times 100.

    Raises:
        ConfigError: There is no such stage, or it is not shared.
    """
    if name not in shared:
        known = ", ".join(shared) or "none: add share_stages=true"
        raise ConfigError(f"stage={name} is not a stage that runs share; there are {known}.", key="stage")
    for stage in stages.values():
        trust |= wanted(stage)
    earlier = list(stages)[: list(stages).index(name)]
    cfg = stages[name]
    if earlier:
        cfg.init_from = str(folder.path.parent / shared[earlier[-1]])
    return train_shared(folder, cfg, trust)


def train_shared(run: RunFolder, cfg: DictConfig, trust: Trust = NOTHING, whole: Path | None = None) -> float:
    """Train a shared stage unless it has finished; wait while another process trains it.

    If that process ends before the stage has finished, the stage is resumed here.

    Args:
        run: The folder of the stage.
        cfg: Its configuration.
        trust: The user's word on what the folder may ask for.
        whole: The folder of the run that needs the stage, if any; a stopped run is resumed by its name.

    Returns:
        Dev Spearman times 100.

    Raises:
        RunningElsewhereError: Another process has been training it for too long.
        UserError: The stage failed.
    """
    deadline = time.monotonic() + PATIENCE
    told = ""
    while (score := _score(run)) is None:
        try:
            with held(run, cfg, whole, trust) as command:
                if _score(run) is None:  # still, now that the folder is locked
                    begun = run.state != "new"
                    own = load_run_config(run, trust) if begun else cfg
                    return train_held(run, own, begun, command, trust)
        except RunningElsewhereError as error:
            if time.monotonic() > deadline:
                raise
            if told != str(error):
                told = str(error)
                who = holder(run.path) or "another process"
                log.info("waiting for %s, a stage that %s trains", run.name, who)
            time.sleep(POLL)
    return score


def _score(run: RunFolder) -> float | None:
    return run.metrics().score if run.finished else None
