"""Wrapper of the Hydra entry points: turns user-facing errors into one message and an exit status."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from sts_lightning.cli.errors import is_of_a_file, reporting
from sts_lightning.config.check import path_override, with_home
from sts_lightning.config.compose import broken_yaml, check_choices, explain
from sts_lightning.config.options import options, take_options, using
from sts_lightning.core.conf_folders import Entry, command_line, set_user_folder, user_folder
from sts_lightning.core.errors import ConfigError, StorageError
from sts_lightning.core.hardware import set_cpu_defaults, set_gpu_defaults
from sts_lightning.core.signals import listening, stop_with_parent, unmasked
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.lock import is_first_process

log = logging.getLogger(__name__)

USAGE = 2
"""Exit status of Hydra's command line for options that it does not have."""


def run(main: Callable[[], Any], entry: Entry) -> None:
    """Run a function decorated with ``hydra.main``, and report its errors.

    The options of the command are taken off the command line while Hydra reads that. ``--debug`` shows the
    traceback of every error.

    Args:
        main: Decorated function.
        entry: The command, which has the name of its configuration.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"  # raise exceptions instead of printing them
    set_cpu_defaults()
    set_gpu_defaults()
    with listening(), reporting("--debug" in sys.argv), _options_taken(entry):
        try:
            stop_with_parent()
            set_user_folder(sys.argv[1:])
            with unmasked():  # a stop does not become an error of the configuration
                check_choices(sys.argv[1:], entry)
                if entry == "train" and options().resume is None:
                    _add_choices()
                main()
        except SystemExit as error:
            if error.code == USAGE:
                print("Settings are given as key=value, without dashes, as in seed=1.", file=sys.stderr)
            raise
        except (HydraException, OmegaConfBaseException) as error:
            given = [text for text in sys.argv[1:] if "=" in text and not text.startswith("-")]
            raise explain(error, entry, given) from error
        except YAMLError as error:
            raise broken_yaml(error) from error
        except ValueError as error:  # Hydra raises it for hydra/launcher=null, and elsewhere
            if not str(error).startswith(("Only one of --", "Config group override must be")):
                raise
            raise ConfigError(" ".join(str(error).split())) from error


_typed: list[str] = []
"""The command line as it was typed."""


@contextlib.contextmanager
def _options_taken(entry: Entry) -> Iterator[None]:
    chosen, rest = take_options([with_home(argument) for argument in sys.argv[1:]], entry)
    _typed[:] = sys.argv
    sys.argv = [sys.argv[0], *rest]
    try:
        with using(chosen):
            yield
    finally:
        sys.argv = list(_typed)


ASKING = ("--help", "-h", "--hydra-help", "--version", "--shell-completion", "-sc")
"""Options of Hydra that compose no run."""

COMPOSING = ("--cfg", "-c", "--info", "-i")
"""Options of Hydra that print a configuration, for other programs to read."""


def _add_choices() -> None:
    """Add what the user's file decides to the command, as if it were typed: jobs and processes get it too."""
    given = {argument.partition("=")[0] for argument in sys.argv[1:]}
    if given & set(ASKING) or not {"path", "+path", "++path"} & given:
        return
    said = is_first_process() and not given & set(COMPOSING)
    with showing_progress() if said else contextlib.nullcontext():
        from sts_lightning.config.by_file import choose_by_file  # most commands name no file

        added = choose_by_file(sys.argv[1:])
    for words in (sys.argv, _typed) if added else ():
        place = max(index for index, word in enumerate(words) if word.lstrip("+").startswith("path="))
        words[place + 1 : place + 1] = added  # Hydra wants all settings in a row, as in path=... --cfg job


@contextlib.contextmanager
def showing_progress() -> Iterator[None]:
    """Show log lines before or without Hydra's setup of the log; those of a run also reach its own log."""
    logger, before = logging.getLogger("sts_lightning"), logging.getLogger("sts_lightning").level
    handler = logging.NullHandler() if logger.hasHandlers() else logging.StreamHandler(sys.stdout)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def job(task: Callable[[DictConfig], float]) -> Callable[[DictConfig], float]:
    """Make a single job exit with its message only; in a sweep, Hydra reports which job failed.

    Args:
        task: Function that ``hydra.main`` decorates.
    """

    @functools.wraps(task)
    def wrapped(cfg: DictConfig) -> float:
        hydra = HydraConfig.get()
        single = hydra.mode is not RunMode.MULTIRUN
        sys.argv = list(_typed) or sys.argv  # Lightning starts processes of further devices by it
        try:
            with reporting(options().debug) if single else contextlib.nullcontext():
                folder = user_folder()
                if folder is not None and is_first_process():  # one that is here by chance would go unnoticed
                    log.info("configuration: %s, then that of the package", folder)
                try:
                    return task(cfg)
                except OSError as error:
                    if not is_of_a_file(error):
                        raise
                    raise storage_error(error, options().resume or hydra.runtime.output_dir) from error
        finally:
            RunFolder(hydra.runtime.output_dir).remove_if_empty()  # Hydra makes it first

    return wrapped


def storage_error(error: OSError, folder: str) -> StorageError:
    """Return the error for a failed write. Files written earlier are intact: every write is atomic.

    Args:
        error: Error raised by the operating system.
        folder: Run folder.
    """
    where = f": {error.filename}" if error.filename else ""
    message = f"{error.strerror}{where}. Files written earlier are intact."
    state = RunFolder(Path(folder)).state
    if state == "interrupted":
        message += f" Fix it, then resume with: {command_line('train', path_override('resume', folder))}"
    elif state != "finished":
        message += " Fix it, then start again with the same command."
    return StorageError(message)
