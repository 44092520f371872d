"""The training command: a run, new or begun before, and those that it starts from.

The same command in the same folder goes on: a new run starts, one that was stopped resumes, one that has
finished prints its result, and other settings are rejected. Each run ends in `train_in`, which locks its
folder and takes it through `prepare`, `fit` and `report`. These need torch and Lightning, and are
imported there, once the values of the settings have been checked.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra import compose
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.check import check_config, check_values, path_override
from sts_lightning.config.earlier_runs import EarlierRun, earlier_runs
from sts_lightning.config.folders import command_line
from sts_lightning.config.identity import move_data
from sts_lightning.config.schema import COMMAND
from sts_lightning.core import signals
from sts_lightning.core.errors import ConfigError, InterruptedRunError, RunningElsewhereError
from sts_lightning.core.processes import is_first_process
from sts_lightning.runs.folder import RunFolder, missing_run_error
from sts_lightning.runs.lock import holder, locked
from sts_lightning.runs.state import BESIDE_RESUME, LENGTHS, check_same, next_step, report_finished, train_on

if TYPE_CHECKING:
    from lightning.pytorch.callbacks import Callback

log = logging.getLogger(__name__)

Begun = tuple[RunFolder, DictConfig]
"""Folder and configuration of a run."""

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
    overrides = [text for text in hydra.overrides.task if text.partition("=")[0] not in COMMAND]
    if cfg.resume is not None:
        check_values(cfg)  # also trust, which is read here alone
        return _resume(RunFolder(cfg.resume), cfg, overrides)
    sharing = hydra.mode is RunMode.MULTIRUN and "BasicLauncher" in hydra.launcher._target_
    if sharing and (cfg.trainer.devices, cfg.trainer.num_nodes) != (1, 1):  # Lightning would repeat the sweep
        raise ConfigError("hydra/launcher=basic: jobs of several devices need processes; leave it out.")
    if cfg.plan:
        raise ConfigError("plan lists the jobs of a sweep: add -m, with any launcher but basic.")
    folder = RunFolder(hydra.runtime.output_dir)
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
    command = command_line("train", path_override("resume", named.name))
    with signals.listening(), _held(folder) as first:
        if not first:  # Lightning starts the other processes once the first one is ready
            logging.getLogger("sts_lightning").setLevel(logging.WARNING)
        try:
            with signals.unmasked():
                cfg = _for_folder(folder, cfg, resume)  # tells a wrong value before torch is imported
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


def _for_folder(folder: RunFolder, cfg: DictConfig, resume: bool = False) -> DictConfig:
    """Check a configuration, and return it as the run in a folder, if one has begun there, has stored it.

    What the machine decides is what it has decided for that run.
    """
    cfg = check_config(cfg)
    if folder.state == "new":
        return cfg
    stored = OmegaConf.create(folder.settings())
    decided = ("chunk_tokens", "launch_tokens", "deterministic")
    for key in ("precision", "model.dtype", *(f"trainer.{name}" for name in decided)):
        value = OmegaConf.select(stored, key)
        if OmegaConf.select(cfg, key) == "auto" and value is not None:  # None: of a version without it
            OmegaConf.update(cfg, key, value)
    if not resume:
        check_same(folder, cfg)
    return cfg


def _resume(run: RunFolder, cfg: DictConfig, overrides: Sequence[str]) -> float:
    """Resume a run, or train a finished one further if the command gives it another length.

    Args:
        run: Its folder.
        cfg: The composed configuration of the command.
        overrides: Settings of the command besides ``resume``; see `BESIDE_RESUME`.
    """
    keys = [text.partition("=")[0] for text in overrides]
    if others := [text for text, key in zip(overrides, keys, strict=True) if key not in BESIDE_RESUME]:
        raise ConfigError(
            f"resume uses the run's own configuration; leave out {' '.join(others)}.",
            key="resume",
            hint=f"{run.name} has finished. {train_on(run)}" if run.finished else None,
        )
    if run.state == "new":
        raise missing_run_error(Path(run.name), run.config_file.name)
    given = {key: OmegaConf.select(cfg, key) for key in keys}
    length = {key: given[key] for key in LENGTHS if key in given}
    stored = OmegaConf.create(run.settings())
    longer = any(OmegaConf.select(stored, key) != value for key, value in length.items())
    if run.finished and not longer:
        return report_finished(run)
    own, data_root = run.load_config(cfg.trust), given.pop("data_root", None)
    if data_root is not None:
        move_data(own, data_root)
    if longer:
        _check_further(run, own)
        given |= {key: length.get(key) for key in LENGTHS}  # one limit takes the place of the other
    for key, value in given.items():
        OmegaConf.update(own, key, value)
    _finish(_unfinished(run, own, cfg.trust, data_root), run)
    return train_in(run.path, own, resume=True, further=longer)


def _check_further(run: RunFolder, cfg: DictConfig) -> None:
    if not run.finished:
        return
    reason, last = None, run.checkpoint("last")
    if cfg.trainer.wise_ft:
        reason = "averaged its weights at the end, and cannot be trained further"
    elif not last.is_file() or "optimizer_states" not in run.read_checkpoint("last", mmap=True, whole=False):
        reason = "finished, and its state was not kept, which trainer.keep_state=true does"
    if reason is not None:
        raise ConfigError(f"{run.name} has {reason}.", key="trainer.keep_state", hint=train_on(run))


def _unfinished(run: RunFolder, cfg: DictConfig, trust: bool, data_root: str | None) -> list[Begun]:
    """Return the runs that a resumed one starts from and that have begun only, the first one first.

    Args:
        run: The folder of the resumed run.
        cfg: Its configuration, which gets the folder that the run before it has now.
        trust: Whether a folder may ask for anything.
        data_root: Where the data are now, if they have moved.
    """
    if cfg.init_from is None:
        return []
    start = run.start(cfg.init_from)
    cfg.init_from = start.name
    if start.state not in ("started", "interrupted"):
        return []
    first = start.load_config(trust)
    if data_root is not None:
        move_data(first, data_root)
    return [*_unfinished(start, first, trust, data_root), (start, first)]


def train_after(run: RunFolder, cfg: DictConfig, earlier: Sequence[EarlierRun]) -> float:
    """Train a run after those that it starts from and that have not finished.

    All are checked, and their configurations written, first: whatever is interrupted is resumed by its name.

    Args:
        run: Its folder.
        cfg: Its composed configuration, which names the folder of the last one.
        earlier: The runs that it starts from, in order.

    Returns:
        Dev Spearman times 100 of the run.

    Raises:
        UserError: See `train_in`.
    """
    runs = [(RunFolder(each.folder), each.cfg) for each in earlier]
    missing = [(folder, first) for folder, first in runs if not folder.finished]
    if missing and not run.finished:
        with _held(run) as first_process:
            if first_process:
                _for_folder(run, cfg)
                _write_all([*missing, (run, cfg)])
            _finish(missing, run)
    return train_in(run.path, cfg)


def _write_all(runs: Sequence[Begun]) -> None:
    from sts_lightning.workflows.preflight import check_later_run  # with torch, as in `train_in`

    known: dict[str, Any] = {}
    new = [(folder, cfg) for folder, cfg in runs if folder.state == "new"]
    for folder, cfg in new:
        log.info("checking %s: %s", cfg.name, folder.name)
        if (lacks := check_later_run(folder, cfg, known)) is not None:
            raise ConfigError(f"{folder.name}: {lacks}")
    for folder, cfg in new:
        folder.path.mkdir(parents=True, exist_ok=True)
        folder.save_config(check_config(cfg))


@contextlib.contextmanager
def _held(folder: RunFolder) -> Iterator[bool]:
    """Lock a folder in the first process of a run; yield whether this is that process."""
    first = is_first_process()
    with locked(folder.path) if first else contextlib.nullcontext():
        yield first


def _finish(runs: Sequence[Begun], whole: RunFolder) -> None:
    """Train the runs that another one starts from, or wait while another process trains them.

    If that process ends before a run has finished, the run is resumed here.

    Args:
        runs: Folders and configurations, in order.
        whole: The run that starts from them; a stopped run is resumed by its name.
    """
    for run, cfg in runs:
        waits_for = ""
        log.info("training %s first: %s", cfg.name, run.name)
        while not run.finished:
            try:
                train_in(run.path, cfg, resume=True, whole=whole.path)
            except RunningElsewhereError as error:
                if waits_for != str(error):
                    waits_for = str(error)
                    log.info(
                        "waiting for %s, which %s trains", run.name, holder(run.path) or "another process"
                    )
                time.sleep(POLL)
