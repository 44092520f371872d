"""The training command: a new run, a resumed run, or a run of several stages.

`train` decides which of them a command is. Each ends in `train_in`, which locks the folder of a run and takes
it through `checks`, `build`, `fit` and `report`. These need torch and Lightning, and are imported there, once
the values of the settings have been checked.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import logging
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hydra import compose
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.check import check_config, path_override
from sts_lightning.config.compose import compose_stages, share_stages
from sts_lightning.config.identity import defining, leaves, move_data, select
from sts_lightning.config.options import options
from sts_lightning.config.trust import NOTHING, Trust, check_links, wanted
from sts_lightning.core import signals
from sts_lightning.core.conf_folders import command_line
from sts_lightning.core.errors import (
    ConfigError,
    FinishedRunError,
    InterruptedRunError,
    RunningElsewhereError,
    UserError,
)
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.lock import holder, is_first_process, locked
from sts_lightning.runs.state import (
    beside_resume,
    check_free,
    check_resumable,
    check_same,
    next_step,
    train_on,
)

if TYPE_CHECKING:
    import lightning.pytorch as pl
    from lightning.pytorch.callbacks import Callback

log = logging.getLogger(__name__)

POLL = 5.0
"""Seconds between two looks at a stage that another process trains."""


def train(cfg: DictConfig) -> float:
    """Train as a Hydra job.

    With the option ``resume`` the configuration and the folder are those of the earlier run.

    Args:
        cfg: The composed configuration.

    Returns:
        Dev Spearman times 100 of the selected weights, of several stages those of the last one.

    Raises:
        UserError: The configuration, the data or a run folder cannot be used, or the run was stopped.
    """
    hydra, chosen = HydraConfig.get(), options()
    trust, sweep = chosen.trust, hydra.mode is RunMode.MULTIRUN
    folder, overrides = RunFolder(hydra.runtime.output_dir), list(hydra.overrides.task)
    try:
        if chosen.resume is not None:
            run = RunFolder(chosen.resume)
            return _resume(run, trust, _beside_resume(run, cfg, overrides))
        if (
            sweep
            and "BasicLauncher" in hydra.launcher._target_
            and (cfg.trainer.devices != 1 or cfg.trainer.num_nodes != 1)
        ):
            raise ConfigError(
                "a sweep (-m) with several devices: its jobs share one process here, from which Lightning "
                "starts the others wrongly. Leave out hydra/launcher=basic, or run the jobs without -m."
            )
        if chosen.plan is not None:
            raise ConfigError("--plan lists the jobs of a sweep: add -m, with any launcher but basic.")
        if not cfg.stages and chosen.stage is None:
            if _begun(folder):
                return _resume_requeued(folder, trust | wanted(cfg))
            return train_in(folder.path, cfg, trust=trust)
        stages = compose_stages(cfg, overrides, partial(compose, "train"))
        for stage in stages.values():  # composed by this command, which is the user's word
            trust |= wanted(stage)
        share = sweep if chosen.share_stages is None else chosen.share_stages
        shared = share_stages(stages) if share else {}
        if chosen.stage is not None:
            return run_shared_stage(folder, chosen.stage, stages, shared, trust)
        if _begun(folder):
            return _resume_requeued(folder, trust)
        return run_stages(folder, stages, trust, shared)
    finally:
        folder.remove_if_empty()


def train_in(
    run: Path,
    cfg: DictConfig,
    resume: bool = False,
    whole: Path | None = None,
    trust: Trust = NOTHING,
    callbacks: Sequence[Callback] = (),
) -> float:
    """Train in a run folder, which no other process can use meanwhile.

    What can be wrong with configuration, data and machine is found before weights are loaded, and nothing is
    written before that.

    Args:
        run: The folder.
        cfg: A composed configuration of the schema `TrainConfig`.
        resume: Whether to resume from the folder's last checkpoint; a run without one starts again.
        whole: The folder of stages that the run is part of; a stopped run is resumed by its name.
        trust: The user's word on what this folder, if it is resumed, and that of ``init_from`` may ask for,
            besides what ``cfg`` itself has.
        callbacks: Callbacks besides those of the configuration.

    Returns:
        Dev Spearman times 100 of the selected weights.

    Raises:
        RunningElsewhereError: Another process is running in the folder.
        InterruptedRunError: A signal stopped the run.
        UserError: Configuration, data or checkpoint cannot be used.
    """
    folder, named = RunFolder(run), RunFolder(whole or run)
    command = _resume_command(named, cfg, trust)
    with signals.listening(), _held(folder) as first:
        if not first:  # Lightning starts the other processes once the first one is ready
            logging.getLogger("sts_lightning").setLevel(logging.WARNING)
        try:
            with signals.unmasked():
                cfg = check_config(cfg)  # tells a wrong value before these lines import torch
                from sts_lightning.core.console import log_to, quiet_lightning
                from sts_lightning.training.callbacks.progress import RunClock
                from sts_lightning.workflows.build import build_experiment
                from sts_lightning.workflows.checks import validate
                from sts_lightning.workflows.fit import fit
                from sts_lightning.workflows.report import report

                clock = RunClock()
                parts = validate(folder, cfg, resume, (clock, *callbacks))
                experiment = build_experiment(parts, command)
                with log_to(folder.log_file), quiet_lightning(), _stopping_others(experiment.trainer):
                    untuned, peak = fit(experiment)
                    return report(experiment, untuned, peak, clock)
        except (KeyboardInterrupt, SystemExit) as error:  # Lightning turns the first into the second
            number = signals.stopping_signal(error)
            if number is None:
                raise
            how = next_step(named, command)
            raise InterruptedRunError(f"stopped by {signals.signal_name(number)}{how}", number) from error


@contextlib.contextmanager
def _stopping_others(trainer: pl.Trainer) -> Iterator[None]:
    """Stop the other processes of a run if this one fails."""
    from lightning.pytorch.utilities.exceptions import SIGTERMException

    from sts_lightning.training.callbacks.resume_checkpoint import stop_others

    try:
        yield
    except BaseException as error:
        stop_others(trainer)
        if isinstance(error, SIGTERMException):  # from a handler of Lightning's, in place of ours
            raise signals.Stopped(signal.SIGTERM) from error
        raise


def _resume_command(run: RunFolder, cfg: DictConfig, trust: Trust) -> str:
    """Return the command that resumes a run, with the consent that its configuration needs."""
    with contextlib.suppress(OmegaConfBaseException):  # what cannot be resolved is rejected later
        trust |= wanted(cfg)
    return command_line("train", path_override("resume", run.name), *trust.arguments())


def _beside_resume(run: RunFolder, cfg: DictConfig, overrides: Sequence[str]) -> dict[str, Any]:
    """Return what the command says besides ``resume``: where the data are now, or how a batch is divided.

    Raises:
        ConfigError: It has another setting, which the run's own configuration decides.
    """
    elsewhere = beside_resume(run)
    others = [text for text in overrides if not text.startswith(tuple(f"{key}=" for key in elsewhere))]
    if others:
        raise ConfigError(
            f"resume uses the run's own configuration; leave out {' '.join(others)}.",
            key="resume",
            hint=f"{run.name} has finished. {train_on(run)}" if run.finished else None,
        )
    given = [key for key in elsewhere if any(text.startswith(f"{key}=") for text in overrides)]
    return {key: OmegaConf.select(cfg, key) for key in given}


def _resume(run: RunFolder, trust: Trust, given: Mapping[str, Any] = MappingProxyType({})) -> float:
    """Resume a run.

    Args:
        run: Its folder.
        trust: Consent of the user.
        given: Settings that replace those of the run; see `_beside_resume`.
    """
    division = dict(given)
    data_root = division.pop("data_root", None)
    if run.has_stages:
        return resume_stages(run, trust, data_root)
    cfg = run.load_config(trust)
    if data_root is not None:
        move_data(cfg, data_root)
    for key, value in division.items():
        OmegaConf.update(cfg, key, value)
    return train_in(run.path, cfg, resume=True, trust=trust)


def _begun(folder: RunFolder) -> bool:
    """Return whether this command has written to the folder in an earlier start of the same SLURM job."""
    return signals.requeued() and folder.state in ("interrupted", "finished")


def _resume_requeued(folder: RunFolder, trust: Trust) -> float:
    """Resume what an earlier start of the same SLURM job has begun.

    Args:
        folder: Run folder.
        trust: Consent of the user, with what the command composes now.
    """
    if folder.finished:
        log.info("%s has finished before SLURM started the job again.", folder.name)
        return folder.last_stage().metrics().score
    log.info("SLURM has started the job again: resuming %s.", folder.name)
    return _resume(folder, trust)


def run_stages(
    folder: RunFolder,
    stages: Mapping[str, DictConfig],
    trust: Trust = NOTHING,
    shared: Mapping[str, str] | None = None,
) -> float:
    """Run stages in sub-folders, each from the weights of the previous one.

    Args:
        folder: The folder of the stages.
        stages: Their configurations by name, in order.
        trust: The user's word on what the folders may ask for.
        shared: Names of the folders of stages that other runs share, by stage.

    Returns:
        Dev Spearman times 100 of the last stage.
    """
    with _held(folder) as first:
        if first:  # the other processes of a run are started after this one has written the file
            if check_free(folder) == "started":
                plain = {name: OmegaConf.to_container(stage, resolve=True) for name, stage in stages.items()}
                check_same(folder, OmegaConf.create(plain))
            folder.save_stages(stages, shared)
        try:
            if first:
                _check_later(folder, stages)
            return _continue_stages(folder, folder.load_stages(trust), trust)
        except UserError as error:
            interrupted = isinstance(error, InterruptedRunError)
            if first and not interrupted and all(folder.stage(name).state == "new" for name in stages):
                folder.stages_file.unlink()  # nothing has begun, so the corrected command may start here
            raise


def _check_later(folder: RunFolder, stages: Mapping[str, DictConfig]) -> None:
    """Check all stages but the first, which begins with these checks, before it trains."""
    from sts_lightning.workflows.checks import check_later_run  # with torch, as in `train_in`

    read: set[str] = set()
    for before, name in itertools.pairwise(stages):
        stage = copy.deepcopy(stages[name])
        with open_dict(stage):
            stage.init_from = str(folder.stage(before).path)
        log.info("checking stage %s", name)
        lacks = check_later_run(folder.stage(name), stage, read)
        if lacks is not None:
            raise ConfigError(f"stage {name}: {lacks}")


def resume_stages(folder: RunFolder, trust: Trust = NOTHING, data_root: str | None = None) -> float:
    """Resume a run of several stages; see `run_stages`.

    Args:
        folder: Its folder.
        trust: Consent of the user.
        data_root: Where its data are now, if they have moved.
    """
    check_links(folder.path)
    stages = folder.load_stages(trust)
    with _held(folder) as first:
        if first:
            check_resumable(folder)
        return _continue_stages(folder, stages, trust, data_root)


@contextlib.contextmanager
def _held(folder: RunFolder) -> Iterator[bool]:
    """Lock a folder of stages in the first process of a run; yield whether this is that process."""
    first = is_first_process()
    with locked(folder.path) if first else contextlib.nullcontext():
        yield first


def _continue_stages(
    folder: RunFolder, stages: Mapping[str, DictConfig], trust: Trust, data_root: str | None = None
) -> float:
    """Run the stages that have not finished."""
    score: float | None = None
    previous: RunFolder | None = None
    for (name, stage), run in zip(stages.items(), folder.stages(), strict=True):
        if not run.finished:
            if previous is not None:
                stage.init_from = str(previous.path)
            log.info("stage %s: %s", name, run.name)
            score = train_stage(run, stage, trust, folder.path, data_root)
        elif run != folder.stage(name):
            log.info("stage %s has finished: %s", name, run.name)
        previous = run
    assert score is not None  # a folder with all stages finished has been rejected
    return score


def run_shared_stage(
    folder: RunFolder,
    name: str,
    stages: Mapping[str, DictConfig],
    shared: Mapping[str, str],
    trust: Trust = NOTHING,
) -> float:
    """Run one stage that several runs share, as a separate job.

    Args:
        folder: Its folder; the stages before it lie beside it.
        name: Name of the stage.
        stages: Configurations of all stages by name, in order.
        shared: Names of the folders of shared stages, by stage.
        trust: The user's word on what the folders may ask for.

    Returns:
        Dev Spearman times 100.

    Raises:
        ConfigError: There is no such stage, or it is not shared.
    """
    if name not in shared:
        known = ", ".join(shared) or "none: add --share-stages"
        raise ConfigError(f"--stage {name} is not a stage that runs share; there are {known}.")
    earlier = list(stages)[: list(stages).index(name)]
    cfg = stages[name]
    if earlier:
        cfg.init_from = str(folder.path.parent / shared[earlier[-1]])
    return train_stage(folder, cfg, trust)


def train_stage(
    run: RunFolder,
    stage: DictConfig,
    trust: Trust = NOTHING,
    whole: Path | None = None,
    data_root: str | None = None,
) -> float:
    """Train a stage unless it has finished; wait while another process trains it, as one that runs share.

    If that process ends before the stage has finished, the stage is resumed here.

    Args:
        run: The folder of the stage.
        stage: Its configuration; a run with a checkpoint has its own.
        trust: The user's word on what the folder may ask for.
        whole: The folder of the run that needs the stage, if any; a stopped run is resumed by its name.
        data_root: Where its data are now, if they have moved.

    Returns:
        Dev Spearman times 100.

    Raises:
        UserError: The stage failed.
    """
    waits_for = ""
    while not run.finished:
        try:
            cfg = stage
            if run.resumable:
                cfg = run.load_config(trust)
                cfg.init_from = stage.init_from  # the folder may have moved since
                # A run that shares the stage may divide its batches otherwise.
                for key, value in select(leaves(defining(stage)), {"order", "cost"}).items():
                    if value != "auto":
                        OmegaConf.update(cfg, key, value)
            if data_root is not None:
                move_data(cfg, data_root)
            return train_in(run.path, cfg, resume=run.state != "new", whole=whole, trust=trust)
        except FinishedRunError:
            pass  # another process has finished it since its state was read
        except RunningElsewhereError as error:
            if waits_for != str(error):
                waits_for = str(error)
                process = holder(run.path) or "another process"
                log.info("waiting for %s, a stage that %s trains", run.name, process)
            time.sleep(POLL)
    return run.metrics().score
