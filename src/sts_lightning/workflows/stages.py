"""The training command: a new run, a resumed run, or a run of several stages."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from hydra import compose
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.keys import flat_keys
from sts_lightning.config.stages import compose_stages
from sts_lightning.config.trust import NOTHING, Trust, wanted
from sts_lightning.errors import CheckpointError, ConfigError, InterruptedRunError, UserError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.lock import is_first_process, locked
from sts_lightning.runs.state import check_free, check_resumable, check_same
from sts_lightning.training.trainer import several
from sts_lightning.workflows.train import train_in

log = logging.getLogger(__name__)

UNTYPED = ("model", "loss", "regularizer", "data", "logger", "callbacks", "published")
"""Parts of the configuration whose keys differ by choice."""


def train(cfg: DictConfig) -> float:
    """Train as a Hydra job.

    With ``resume`` the configuration and the folder are those of the earlier run.

    Args:
        cfg: The composed configuration.

    Returns:
        Dev Spearman times 100 of the selected weights, of several stages those of the last one.

    Raises:
        UserError: The configuration, the data or a run folder cannot be used, or the run was stopped.
    """
    hydra = HydraConfig.get()
    folder = RunFolder(hydra.runtime.output_dir)
    overrides = list(hydra.overrides.task)
    trust = Trust.of(cfg.trust, cfg.trust_remote_code)
    try:
        if cfg.resume is not None:
            allowed = ("resume=", "debug=", "trust=", "trust_remote_code=")
            others = [text for text in overrides if not text.startswith(allowed)]
            if others:
                raise ConfigError(
                    f"resume uses the run's own configuration; leave out {' '.join(others)}.", key="resume"
                )
            run = RunFolder(cfg.resume)
            if run.has_stages:
                return resume_stages(run, trust)
            return train_in(run.path, load_run_config(run, trust), resume=True, trust=trust)
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
            return run_stages(folder, compose_stages(cfg, overrides), trust)
        return train_in(folder.path, cfg, trust=trust)
    finally:
        folder.remove_if_empty()


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
    with open_dict(complete):
        for group in set(UNTYPED) & set(cfg):  # their defaults are in the signatures of their targets
            complete[group] = cfg[group]
    OmegaConf.set_struct(complete.trainer.extra, False)  # its keys are those of Lightning's Trainer
    added = sorted(set(flat_keys(complete)) - set(flat_keys(cfg)))
    try:
        merged = OmegaConf.merge(complete, cfg)
    except OmegaConfBaseException as error:
        reason = str(error).splitlines()[0]
        raise CheckpointError(f"{run.config_file}: {error.full_key}: {reason}") from error
    if added:
        log.info("using defaults for settings added after this run was created: %s", ", ".join(added))
    assert isinstance(merged, DictConfig)
    return merged


def run_stages(folder: RunFolder, stages: dict[str, DictConfig], trust: Trust = NOTHING) -> float:
    """Run stages in sub-folders, each from the weights of the previous one.

    Args:
        folder: The folder of the stages.
        stages: Their configurations by name, in order.
        trust: The user's word on what the folders may ask for; what ``stages`` name themselves is included.

    Returns:
        Dev Spearman times 100 of the last stage.
    """
    plain = {name: OmegaConf.to_container(stage, resolve=True) for name, stage in stages.items()}
    for stage in stages.values():  # composed by this command, which is the user's word
        trust |= wanted(stage)
    with _held(folder) as first:
        if first:  # the other processes of a run are started after this one has written the file
            if check_free(folder) == "started":
                check_same(folder, OmegaConf.create(plain))
            folder.save_stages(stages)
        try:
            return _continue_stages(folder, trust)
        except UserError as error:
            interrupted = isinstance(error, InterruptedRunError)
            if first and not interrupted and all(stage.state == "new" for stage in folder.stages()):
                folder.stages_file.unlink()  # nothing has begun, so the corrected command may start here
            raise


def resume_stages(folder: RunFolder, trust: Trust = NOTHING) -> float:
    """Resume a run of several stages; see `run_stages`."""
    folder.load_stages(trust)
    with _held(folder) as first:
        if first:
            check_resumable(folder)
        return _continue_stages(folder, trust)


@contextlib.contextmanager
def _held(folder: RunFolder) -> Iterator[bool]:
    """Lock a folder of stages in the first process of a run; yield whether this is that process."""
    first = is_first_process()
    with locked(folder.path) if first else contextlib.nullcontext():
        yield first


def _continue_stages(folder: RunFolder, trust: Trust) -> float:
    """Run the stages that have not finished."""
    score: float | None = None
    previous: RunFolder | None = None
    for name, stage in folder.load_stages(trust).items():
        run = RunFolder(folder.path / name)
        if not run.finished:
            with open_dict(stage):
                stage.init_from = stage.init_from if previous is None else str(previous.path)
            log.info("stage %s: %s", name, run.name)
            begun = run.state != "new"
            cfg = load_run_config(run, trust) if begun else stage
            score = train_in(run.path, cfg, resume=begun, whole=folder.path, trust=trust)
        previous = run
    assert score is not None  # a folder with all stages finished has been rejected
    return score
