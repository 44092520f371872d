"""The training command: a run of one or of several stages, new or begun before.

The same command in the same folder goes on: a new run starts, one that was stopped resumes, one that has
finished prints its result, and other settings are rejected. Each run ends in `train_in`, which locks its
folder and takes it through `checks`, `build`, `fit` and `report`. These need torch and Lightning, and are
imported there, once the values of the settings have been checked.
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
from typing import TYPE_CHECKING, Any

from hydra import compose
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.check import check_config, path_override
from sts_lightning.config.compose import compose_stages, share_stages
from sts_lightning.config.identity import move_data
from sts_lightning.config.options import options
from sts_lightning.config.schema import TrainConfig
from sts_lightning.config.trust import requests
from sts_lightning.core import signals
from sts_lightning.core.conf_folders import command_line
from sts_lightning.core.errors import ConfigError, InterruptedRunError, RunningElsewhereError, UserError
from sts_lightning.runs.folder import RunFolder, no_run
from sts_lightning.runs.lock import check_links, holder, is_first_process, locked
from sts_lightning.runs.state import LENGTHS, beside_resume, next_step, report_finished, state_for, train_on

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
    sweep = hydra.mode is RunMode.MULTIRUN
    folder, overrides = RunFolder(hydra.runtime.output_dir), list(hydra.overrides.task)
    if chosen.resume is not None:
        return _resume(RunFolder(chosen.resume), chosen.trust, cfg, overrides)
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
        return train_in(folder.path, cfg)
    stages = compose_stages(cfg, overrides, partial(compose, "train"))
    share = sweep if chosen.share_stages is None else chosen.share_stages
    shared = share_stages(stages) if share else {}
    if chosen.stage is not None:
        return run_shared_stage(folder, chosen.stage, stages, shared)
    return run_stages(folder, stages, shared)


def train_in(
    run: Path,
    cfg: DictConfig,
    resume: bool = False,
    whole: Path | None = None,
    callbacks: Sequence[Callback] = (),
    further: bool = False,
) -> float:
    """Train in a run folder, which no other process can use meanwhile, or go on with what has begun there.

    What can be wrong with configuration, data and machine is found before weights are loaded, and nothing is
    written before that.

    Args:
        run: The folder.
        cfg: A composed configuration of the schema `TrainConfig`.
        resume: Whether the configuration is known to be that of the folder, which is not compared then.
        whole: The folder of stages that the run is part of; a stopped run is resumed by its name.
        callbacks: Callbacks besides those of the configuration.
        further: Whether a run that has finished trains on, up to the length in ``cfg``.

    Returns:
        Dev Spearman times 100 of the selected weights.

    Raises:
        RunningElsewhereError: Another process is running in the folder.
        InterruptedRunError: A signal stopped the run.
        UserError: Configuration, data or checkpoint cannot be used.
    """
    folder, named = RunFolder(run), RunFolder(whole or run)
    command = _resume_command(named, cfg)
    with signals.listening(), _held(folder) as first:
        if not first:  # Lightning starts the other processes once the first one is ready
            logging.getLogger("sts_lightning").setLevel(logging.WARNING)
        try:
            with signals.unmasked():
                cfg = _as_begun(folder, check_config(cfg))  # tells a wrong value before these import torch
                if not resume:
                    state_for(folder, cfg)
                if folder.finished and not further:
                    return report_finished(folder)
                from sts_lightning.core.console import log_to, quiet_lightning
                from sts_lightning.training.callbacks.progress import RunClock
                from sts_lightning.workflows.build import build_experiment
                from sts_lightning.workflows.checks import validate
                from sts_lightning.workflows.fit import fit
                from sts_lightning.workflows.report import report

                clock = RunClock()
                parts = validate(folder, cfg, (clock, *callbacks))
                experiment = build_experiment(parts, command)
                if folder.resumable or folder.finished:
                    _check_length(folder, experiment.steps.total_steps)
                with log_to(folder.log_file), quiet_lightning(), _stopping_others(experiment.trainer):
                    if first:  # before its configuration changes: killed in between, it is an interrupted run
                        folder.metrics_file.unlink(missing_ok=True)
                    untuned, peak = fit(experiment)
                    return report(experiment, untuned, peak, clock)
        except (KeyboardInterrupt, SystemExit) as error:  # Lightning turns the first into the second
            number = signals.stopping_signal(error)
            if number is None:
                raise
            how = next_step(named, command)
            raise InterruptedRunError(f"stopped by {signals.signal_name(number)}{how}", number) from error


def _as_begun(folder: RunFolder, cfg: DictConfig) -> DictConfig:
    """Return a configuration as the run in a folder, if one has begun there, would have stored it.

    What the machine decides is what it has decided for that run, and settings that were added for others to
    refer to, as in ``+width=64``, have been read.
    """
    if folder.state == "new":
        return cfg
    stored, cfg = folder.settings(), copy.deepcopy(cfg)
    with open_dict(cfg):
        for key in set(map(str, cfg)) - TrainConfig.model_fields.keys():
            del cfg[key]
    for key in ("precision", "model.dtype", "trainer.chunk_tokens", "trainer.deterministic"):
        if OmegaConf.select(cfg, key) == "auto":
            OmegaConf.update(cfg, key, OmegaConf.select(OmegaConf.create(stored), key))
    return cfg


def _check_length(folder: RunFolder, steps: int) -> None:
    """Reject a length that a run has reached already; one that is killed in its report may end again."""
    made = folder.read_checkpoint("last", mmap=True, whole=False)["global_step"]
    if steps < made or (steps == made and folder.finished):
        raise ConfigError(
            f"{folder.name} has made {made} steps, and would end after {steps}; to train it further, give it "
            "more by trainer.max_epochs or trainer.max_steps.",
            key="trainer.max_steps",
        )


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


def _resume_command(run: RunFolder, cfg: DictConfig) -> str:
    """Return the command that resumes a run, with the user's word if its configuration needs that."""
    asked = False
    with contextlib.suppress(OmegaConfBaseException):  # what cannot be resolved is rejected later
        asked = any(requests(OmegaConf.to_container(cfg, resolve=True)))
    word = ("trust=true",) if asked else ()
    return command_line("train", path_override("resume", run.name), *word)


def _beside_resume(run: RunFolder, cfg: DictConfig, overrides: Sequence[str]) -> dict[str, Any]:
    """Return the settings of a command besides ``resume``; see `beside_resume`.

    Raises:
        ConfigError: It has another setting, which the run's own configuration decides.
    """
    allowed = beside_resume(run)
    others = [text for text in overrides if not text.startswith(tuple(f"{key}=" for key in allowed))]
    if others:
        raise ConfigError(
            f"resume uses the run's own configuration; leave out {' '.join(others)}.",
            key="resume",
            hint=f"{run.name} has finished. {train_on(run)}" if run.finished else None,
        )
    given = [key for key in allowed if any(text.startswith(f"{key}=") for text in overrides)]
    return {key: OmegaConf.select(cfg, key) for key in given}


def _resume(run: RunFolder, trust: bool, cfg: DictConfig, overrides: Sequence[str]) -> float:
    """Resume a run, or train a finished one further if the command gives it another length.

    Args:
        run: Its folder.
        trust: Whether it may ask for anything.
        cfg: The composed configuration of the command.
        overrides: Settings of the command; see `_beside_resume`.
    """
    given = _beside_resume(run, cfg, overrides)
    if run.state == "new":
        raise no_run(Path(run.name), run.config_file.name)
    length = {key: given.pop(key) for key in LENGTHS if key in given}
    stored = OmegaConf.create({} if run.has_stages else run.settings())
    longer = any(OmegaConf.select(stored, key) != value for key, value in length.items())
    if run.finished and not longer:
        return report_finished(run)
    check_links(run.path)
    if run.has_stages:
        return resume_stages(run, trust, given.get("data_root"))
    own = run.load_config(trust)
    if "data_root" in given:
        move_data(own, given.pop("data_root"))
    if longer:
        _check_further(run, own)
        given |= {key: length.get(key) for key in LENGTHS}  # one limit takes the place of the other
    for key, value in given.items():
        OmegaConf.update(own, key, value)
    return train_in(run.path, own, resume=True, further=longer)


def _check_further(run: RunFolder, cfg: DictConfig) -> None:
    """Reject another length for a run that cannot be trained further."""
    if run.finished and cfg.trainer.wise_ft:
        raise ConfigError(
            f"{run.name} has averaged its weights at the end, and cannot be trained further.",
            key="trainer.wise_ft",
            hint=train_on(run),
        )
    last = run.checkpoint("last")
    if run.finished and not (
        last.is_file() and "optimizer_states" in run.read_checkpoint("last", mmap=True, whole=False)
    ):
        raise ConfigError(
            f"{run.name} has finished, and its state was not kept, which trainer.keep_state=true does.",
            key="trainer.keep_state",
            hint=train_on(run),
        )


def run_stages(
    folder: RunFolder,
    stages: Mapping[str, DictConfig],
    shared: Mapping[str, str] | None = None,
) -> float:
    """Run stages in sub-folders, each from the weights of the previous one, or go on with them.

    Args:
        folder: The folder of the stages.
        stages: Their configurations by name, in order.
        shared: Names of the folders of stages that other runs share, by stage.

    Returns:
        Dev Spearman times 100 of the last stage.
    """
    with _held(folder) as first:
        if first:  # the other processes of a run are started after this one has written the file
            plain = {name: OmegaConf.to_container(stage, resolve=True) for name, stage in stages.items()}
            if state_for(folder, OmegaConf.create(plain)) in ("new", "started"):
                folder.save_stages(stages, shared)  # else it has begun to train or to share the stages
        try:
            if first and not folder.finished:
                _check_later(folder, stages)
            return _continue_stages(folder, stages)
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


def resume_stages(folder: RunFolder, trust: bool = False, data_root: str | None = None) -> float:
    """Resume a run of several stages; see `run_stages`.

    Args:
        folder: Its folder.
        trust: Whether it may ask for anything.
        data_root: Where its data are now, if they have moved.
    """
    stages = folder.load_stages(trust)
    with _held(folder):
        return _continue_stages(folder, stages, data_root)


@contextlib.contextmanager
def _held(folder: RunFolder) -> Iterator[bool]:
    """Lock a folder of stages in the first process of a run; yield whether this is that process."""
    first = is_first_process()
    with locked(folder.path) if first else contextlib.nullcontext():
        yield first


def _continue_stages(
    folder: RunFolder, stages: Mapping[str, DictConfig], data_root: str | None = None
) -> float:
    """Run the stages that have not finished."""
    if folder.finished:
        return report_finished(folder)
    score = 0.0
    previous: RunFolder | None = None
    for (name, stage), run in zip(stages.items(), folder.stages(), strict=True):
        if not run.finished:
            if previous is not None:
                stage.init_from = str(previous.path)
            log.info("stage %s: %s", name, run.name)
            score = train_stage(run, stage, folder.path, data_root)
        elif run != folder.stage(name):
            log.info("stage %s has finished: %s", name, run.name)
        previous = run
    return score


def run_shared_stage(
    folder: RunFolder,
    name: str,
    stages: Mapping[str, DictConfig],
    shared: Mapping[str, str],
) -> float:
    """Run one stage that several runs share, as a separate job.

    Args:
        folder: Its folder; the stages before it lie beside it.
        name: Name of the stage.
        stages: Configurations of all stages by name, in order.
        shared: Names of the folders of shared stages, by stage.

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
    return train_stage(folder, cfg)


def train_stage(
    run: RunFolder,
    stage: DictConfig,
    whole: Path | None = None,
    data_root: str | None = None,
) -> float:
    """Train a stage unless it has finished; wait while another process trains it, as one that runs share.

    If that process ends before the stage has finished, the stage is resumed here.

    Args:
        run: The folder of the stage.
        stage: Its configuration.
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
            if data_root is not None:
                move_data(stage, data_root)
            return train_in(run.path, stage, resume=True, whole=whole)
        except RunningElsewhereError as error:
            if waits_for != str(error):
                waits_for = str(error)
                process = holder(run.path) or "another process"
                log.info("waiting for %s, a stage that %s trains", run.name, process)
            time.sleep(POLL)
    return run.metrics().score
