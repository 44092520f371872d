"""What `python train.py` does: a run, a run that goes on, or several runs one after the other."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hydra import compose
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.keys import flat_keys, stage_overrides
from sts_lightning.config.trust import NOTHING, Trust, wanted
from sts_lightning.config.validate import check_config
from sts_lightning.errors import CheckpointError, ConfigError, InterruptedRunError, UserError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.lock import is_first_process, locked
from sts_lightning.runs.state import check_free, check_resumable, check_same
from sts_lightning.training.trainer import several
from sts_lightning.workflows.train import train_in

log = logging.getLogger(__name__)

UNTYPED = ("model", "loss", "regularizer", "data", "logger", "callbacks")
"""Groups of the configuration whose keys differ by choice."""


def train(cfg: DictConfig) -> float:
    """Train as a Hydra job; returns the dev Spearman of the selected weights, those of the last stage.

    With ``resume`` the configuration and the folder are those of the run that goes on.
    """
    hydra = HydraConfig.get()
    folder = Path(hydra.runtime.output_dir)
    overrides = list(hydra.overrides.task)
    trust = Trust.of(cfg.trust, cfg.trust_remote_code)
    try:
        if cfg.resume is not None:
            allowed = ("resume=", "debug=", "trust=", "trust_remote_code=")
            others = [text for text in overrides if not text.startswith(allowed)]
            if others:
                raise ConfigError(
                    f"resume goes on with the run's own configuration; leave out {' '.join(others)}."
                )
            run = Path(cfg.resume)
            if RunFolder(run).has_stages:
                return _resume_stages(run, trust)
            return train_in(run, load_run_config(run, trust), resume=True, trust=trust)
        if (
            hydra.mode is RunMode.MULTIRUN
            and several(cfg.trainer)
            and "BasicLauncher" in hydra.launcher._target_
        ):
            raise ConfigError(
                "a sweep (-m) with several devices: its jobs share one process here, from which Lightning "
                "starts the others wrongly. Leave out hydra/launcher=basic, or run the jobs without -m."
            )
        if cfg.stages:
            return _run_stages(folder, _compose_stages(cfg, overrides), trust)
        return train_in(folder, cfg, trust=trust)
    finally:
        RunFolder(folder).remove_if_empty()


def load_run_config(run: Path, trust: Trust = NOTHING) -> DictConfig:
    """The configuration of a run that goes on; settings that are younger than the run have their defaults.

    Args:
        run: The run folder.
        trust: The user's word on what it may ask for.

    Raises:
        CheckpointError: It cannot be read, or has a setting that this version does not know.
        UntrustedError: It asks for more than the user allows.
    """
    cfg = RunFolder(run).load_config(trust)
    complete = compose("train")
    with open_dict(complete):
        for group in set(UNTYPED) & set(cfg):  # what they build has defaults in its signature
            complete[group] = cfg[group]
    OmegaConf.set_struct(complete.trainer.extra, False)  # its keys are those of Lightning's Trainer
    younger = sorted(set(flat_keys(complete)) - set(flat_keys(cfg)))
    try:
        merged = OmegaConf.merge(complete, cfg)
    except OmegaConfBaseException as error:
        reason = str(error).splitlines()[0]
        raise CheckpointError(f"{RunFolder(run).config_file}: {error.full_key}: {reason}") from error
    if younger:
        log.info("settings that are younger than the run have their defaults: %s", ", ".join(younger))
    assert isinstance(merged, DictConfig)
    return merged


def _compose_stages(cfg: DictConfig, overrides: list[str]) -> dict[str, DictConfig]:
    """The configuration of each stage: its experiment, the command line, and its own settings, in this order.

    Raises:
        ConfigError: A stage has no experiment, or a setting that does not exist.
    """
    composed = {}
    for name, settings in cfg.stages.items():
        own: Any = OmegaConf.to_container(settings)
        experiment = own.pop("experiment", None)
        if experiment is None:
            raise ConfigError(f"stages.{name}.experiment is missing.")
        try:
            stage = OmegaConf.merge(compose("train", stage_overrides(overrides, experiment)), own)
        except OmegaConfBaseException as error:
            raise ConfigError(f"stages.{name}: {str(error).splitlines()[0]}") from error
        assert isinstance(stage, DictConfig)
        stage.name = f"{cfg.name}-{name}"
        composed[str(name)] = check_config(stage)
    return composed


def _run_stages(folder: Path, stages: dict[str, DictConfig], trust: Trust) -> float:
    """Run stages in sub-folders, each from the weights of the one before."""
    composed = OmegaConf.create(
        {name: OmegaConf.to_container(stage, resolve=True) for name, stage in stages.items()}
    )
    for stage in stages.values():  # composed by this command, which is the user's word
        trust |= wanted(stage)
    with _held(folder) as first:
        if first:  # the other processes of a run are started after this one has written the file
            if check_free(RunFolder(folder)) == "started":
                check_same(RunFolder(folder), composed)
            RunFolder(folder).save_stages(stages)
        try:
            return _continue_stages(folder, trust)
        except UserError as error:
            interrupted = isinstance(error, InterruptedRunError)
            if first and not interrupted and all(RunFolder(folder / name).state == "new" for name in stages):
                RunFolder(
                    folder
                ).stages_file.unlink()  # nothing has begun, so the corrected command may start here
            raise


def _resume_stages(folder: Path, trust: Trust) -> float:
    RunFolder(folder).load_stages(trust)
    with _held(folder) as first:
        if first:
            check_resumable(RunFolder(folder))
        return _continue_stages(folder, trust)


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[bool]:
    """Lock a folder of stages, in the first process of a run; yields whether this is that one."""
    first = is_first_process()
    with locked(folder) if first else contextlib.nullcontext():
        yield first


def _continue_stages(folder: Path, trust: Trust) -> float:
    """Run what is left of the stages of a folder."""
    score: float | None = None
    before: Path | None = None
    for name, stage in RunFolder(folder).load_stages(trust).items():
        run = folder / name
        state = RunFolder(run).state
        if state != "finished":
            with open_dict(stage):
                stage.init_from = stage.init_from if before is None else str(before)
            log.info("stage %s: %s", name, RunFolder(run).name)
            begun = state != "new"
            cfg = load_run_config(run, trust) if begun else stage
            score = train_in(run, cfg, resume=begun, whole=folder, trust=trust)
        before = run
    assert score is not None  # else the folder has finished, which was checked
    return score
