"""The training command: a run, new or begun before, and those that it starts from.

The same command in the same folder goes on: a new run starts, one that was stopped resumes, one that has
finished prints its result, and other settings are rejected. Each run ends in `train_in`, which locks its
folder and takes it through `checks`, `build`, `fit` and `report`. These need torch and Lightning, and are
imported there, once the values of the settings have been checked.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra import compose
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.check import check_config, check_values, path_override
from sts_lightning.config.identity import move_data
from sts_lightning.config.schema import COMMAND, TrainConfig
from sts_lightning.config.start import EarlierRun, earlier_runs
from sts_lightning.config.stored import requests
from sts_lightning.core import signals
from sts_lightning.core.conf_folders import command_line
from sts_lightning.core.errors import ConfigError, InterruptedRunError, RunningElsewhereError, UserError
from sts_lightning.runs.folder import RunFolder, no_run
from sts_lightning.runs.lock import check_links, holder, is_first_process, locked
from sts_lightning.runs.state import BESIDE_RESUME, LENGTHS, next_step, report_finished, state_for, train_on

if TYPE_CHECKING:
    from lightning.pytorch.callbacks import Callback

log = logging.getLogger(__name__)

POLL = 5.0
"""Seconds between two looks at a run that another process trains."""


def train(cfg: DictConfig) -> float:
    """Train as a Hydra job.

    With ``resume`` the configuration and the folder are those of the earlier run.

    Args:
        cfg: The composed configuration.

    Returns:
        Dev Spearman times 100 of the selected weights.

    Raises:
        UserError: The configuration, the data or a run folder cannot be used, or the run was stopped.
    """
    hydra = HydraConfig.get()
    sweep = hydra.mode is RunMode.MULTIRUN
    folder = RunFolder(hydra.runtime.output_dir)
    overrides = [text for text in hydra.overrides.task if text.partition("=")[0] not in COMMAND]
    if cfg.resume is not None:
        check_values(cfg)  # also trust, which is read here alone
        return _resume(RunFolder(cfg.resume), cfg.trust, cfg, overrides)
    if (
        sweep
        and "BasicLauncher" in hydra.launcher._target_
        and (cfg.trainer.devices != 1 or cfg.trainer.num_nodes != 1)
    ):
        raise ConfigError(
            "a sweep (-m) with several devices: its jobs share one process here, from which Lightning "
            "starts the others wrongly. Leave out hydra/launcher=basic, or run the jobs without -m."
        )
    if cfg.plan:
        raise ConfigError("plan lists the jobs of a sweep: add -m, with any launcher but basic.")
    whole = partial(compose, "train", return_hydra_config=True)
    return train_after(folder, cfg, earlier_runs(cfg, overrides, Path(folder.name).parent, whole))


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
        whole: The folder of the run that starts from this one; a stopped run is resumed by its name.
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
                from sts_lightning.workflows.train import run_training

                return run_training(folder, cfg, callbacks, command)
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
    stored, cfg = folder.settings(), _without_added(cfg)
    for key in ("precision", "model.dtype", "trainer.chunk_tokens", "trainer.deterministic"):
        if OmegaConf.select(cfg, key) == "auto":
            OmegaConf.update(cfg, key, OmegaConf.select(OmegaConf.create(stored), key))
    return cfg


def _without_added(cfg: DictConfig) -> DictConfig:
    """Return a copy of a resolved configuration without settings that were added for others to refer to."""
    cfg = copy.deepcopy(cfg)
    with open_dict(cfg):
        for key in set(map(str, cfg)) - TrainConfig.model_fields.keys():
            del cfg[key]
    return cfg


def _resume_command(run: RunFolder, cfg: DictConfig) -> str:
    """Return the command that resumes a run, with the user's word if its configuration needs that."""
    asked = False
    with contextlib.suppress(OmegaConfBaseException):  # what cannot be resolved is rejected later
        asked = any(requests(OmegaConf.to_container(cfg, resolve=True)))
    word = ("trust=true",) if asked else ()
    return command_line("train", path_override("resume", run.name), *word)


def _beside_resume(run: RunFolder, cfg: DictConfig, overrides: Sequence[str]) -> dict[str, Any]:
    """Return the settings of a command besides ``resume``; see `BESIDE_RESUME`.

    Raises:
        ConfigError: It has another setting, which the run's own configuration decides.
    """
    others = [text for text in overrides if not text.startswith(tuple(f"{key}=" for key in BESIDE_RESUME))]
    if others:
        raise ConfigError(
            f"resume uses the run's own configuration; leave out {' '.join(others)}.",
            key="resume",
            hint=f"{run.name} has finished. {train_on(run)}" if run.finished else None,
        )
    given = [key for key in BESIDE_RESUME if any(text.startswith(f"{key}=") for text in overrides)]
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
    stored = OmegaConf.create(run.settings())
    longer = any(OmegaConf.select(stored, key) != value for key, value in length.items())
    if run.finished and not longer:
        return report_finished(run)
    check_links(run.path)
    own, data_root = run.load_config(trust), given.pop("data_root", None)
    if data_root is not None:
        move_data(own, data_root)
    if longer:
        _check_further(run, own)
        given |= {key: length.get(key) for key in LENGTHS}  # one limit takes the place of the other
    for key, value in given.items():
        OmegaConf.update(own, key, value)
    _resume_start(run, own, trust, data_root)
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


def train_after(run: RunFolder, cfg: DictConfig, earlier: Sequence[EarlierRun]) -> float:
    """Train a run after those that it starts from and that have not finished.

    Its own configuration and theirs are written first: whatever is interrupted is resumed by its name.

    Args:
        run: Its folder.
        cfg: Its composed configuration, which names the folder of the last one.
        earlier: The runs that it starts from, in order.

    Returns:
        Dev Spearman times 100 of the run.

    Raises:
        UserError: See `train_in`.
    """
    missing = [each for each in earlier if not RunFolder(each.folder).finished]
    if not missing or run.finished:
        return train_in(run.path, cfg)
    written: list[RunFolder] = []
    try:
        with _held(run) as first:
            written = _write_all(run, cfg, missing) if first else []
            for each in missing:
                folder = RunFolder(each.folder)
                log.info("experiment=%s: %s", each.experiment, folder.name)
                _train_unless_finished(folder, each.cfg, run.path)
    except UserError as error:
        if not isinstance(error, InterruptedRunError):
            for folder in written:
                _forget(folder)
        raise
    return train_in(run.path, cfg)


def _forget(folder: RunFolder) -> None:
    """Remove the configuration of a run that has not begun, so that the corrected command may begin there."""
    with contextlib.suppress(RunningElsewhereError), locked(folder.path):
        if folder.state == "started" and not folder.log_file.exists():
            folder.config_file.unlink()
    folder.remove_if_empty()


def _write_all(run: RunFolder, cfg: DictConfig, missing: Sequence[EarlierRun]) -> list[RunFolder]:
    """Check a run and those that it starts from, write the configurations of new ones, return their folders.

    The first one to train is checked as it begins.
    """
    from sts_lightning.workflows.checks import check_later_run  # with torch, as in `train_in`

    state_for(run, _as_begun(run, check_config(cfg)))
    read: set[str] = set()
    runs = [*((RunFolder(each.folder), each.cfg) for each in missing), (run, cfg)]
    for folder, settings in runs[1:]:
        log.info("checking %s: %s", settings.name, folder.name)
        if (lacks := check_later_run(folder, settings, read)) is not None:
            raise ConfigError(f"{folder.name}: {lacks}")
    new = [(folder, settings) for folder, settings in runs if folder.state == "new"]
    for folder, settings in new:
        folder.path.mkdir(parents=True, exist_ok=True)
        folder.save_config(_without_added(check_config(settings)))
    return [folder for folder, _ in new]


@contextlib.contextmanager
def _held(folder: RunFolder) -> Iterator[bool]:
    """Lock a folder in the first process of a run; yield whether this is that process."""
    first = is_first_process()
    with locked(folder.path) if first else contextlib.nullcontext():
        yield first


def _train_unless_finished(run: RunFolder, cfg: DictConfig, whole: Path) -> None:
    """Train a run that another one starts from, or wait while another process trains it.

    If that process ends before the run has finished, the run is resumed here.

    Args:
        run: Its folder.
        cfg: Its configuration.
        whole: The folder of the run that starts from it; a stopped run is resumed by its name.
    """
    waits_for = ""
    while not run.finished:
        try:
            train_in(run.path, cfg, resume=True, whole=whole)
        except RunningElsewhereError as error:
            if waits_for != str(error):
                waits_for = str(error)
                log.info("waiting for %s, which %s trains", run.name, holder(run.path) or "another process")
            time.sleep(POLL)


def _resume_start(
    run: RunFolder, cfg: DictConfig, trust: bool, data_root: str | None, whole: Path | None = None
) -> None:
    """Finish the run that a resumed one starts from, by its own configuration, if it has begun only.

    Args:
        run: The folder of the resumed run.
        cfg: Its configuration, which gets the folder that the first run has now.
        trust: Whether a folder may ask for anything.
        data_root: Where the data are now, if they have moved.
        whole: The folder that the user named.
    """
    if cfg.init_from is None:
        return
    start = run.start(cfg.init_from)
    cfg.init_from = start.name
    if start.state in ("started", "interrupted"):
        check_links(start.path)
        first = start.load_config(trust)
        if data_root is not None:
            move_data(first, data_root)
        _resume_start(start, first, trust, data_root, whole or run.path)
        log.info("%s starts from %s, which has not finished", run.name, start.name)
        _train_unless_finished(start, first, whole or run.path)
