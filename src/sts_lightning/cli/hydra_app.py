"""Wrapper of the Hydra entry points: turns user-facing errors into one message and an exit status."""

from __future__ import annotations

import errno
import functools
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from sts_lightning.batch_job import requeue
from sts_lightning.cli.cpu_defaults import set_cpu_defaults
from sts_lightning.cli.group_choices import check_choices
from sts_lightning.conf_folders import own_folder, take_folder
from sts_lightning.config.composing import broken_yaml
from sts_lightning.config.composition_errors import explain
from sts_lightning.config.constraints import check_flags
from sts_lightning.config.keys import check_known, path_override
from sts_lightning.entry_points import Entry, command_line
from sts_lightning.errors import ConfigError, InterruptedRunError, StorageError, UserError
from sts_lightning.interrupts import listening, signal_name, stop_with_parent, stopping_signal, unmasked
from sts_lightning.output import lasting_output
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.lock import is_first_process

log = logging.getLogger(__name__)

STORAGE = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.EFBIG,
    errno.ENAMETOOLONG,
    errno.EEXIST,
    errno.ENOTDIR,
)
"""errno values meaning that a file could not be written."""

USAGE = 2
"""Exit status of Hydra's command line for options that it does not have."""


def run(main: Callable[[], Any], entry: Entry) -> None:
    """Run a function decorated with ``hydra.main`` and turn errors into messages and exit codes.

    Exit statuses: 0 success, 1 error, 2 an unknown option, 3 the run has already finished, 75 another process
    runs in the folder, 128 + N stopped by signal N (130 for Ctrl-C, 143 for SIGTERM). ``debug=true`` on the
    command line shows the traceback of every error.

    Args:
        main: Decorated function.
        entry: The command, which has the name of its configuration.
    """
    debug = any(argument.lower() in ("debug=true", "+debug=true") for argument in sys.argv[1:])
    os.environ["HYDRA_FULL_ERROR"] = "1"  # raise exceptions instead of printing them
    set_cpu_defaults()
    with lasting_output(), listening():
        try:
            stop_with_parent()
            take_folder(sys.argv[1:])
            with unmasked():
                check_choices(sys.argv[1:])
                main()
        except UserError as error:
            _exit(error, debug)
        except SystemExit as error:
            if error.code == USAGE:
                print("Settings are given as key=value, without dashes, as in seed=1.", file=sys.stderr)
            raise
        except KeyboardInterrupt as error:  # a run that has begun raises its own error
            number = stopping_signal(error) or signal.SIGINT
            message = f"stopped by {signal_name(number)}. The same command starts it again."
            _exit(InterruptedRunError(message, number), debug)
        except (HydraException, OmegaConfBaseException) as error:
            given = [text for text in sys.argv[1:] if "=" in text and not text.startswith("-")]
            _exit(explain(error, entry, given), debug)
        except YAMLError as error:
            _exit(broken_yaml(error), debug)
        except OSError as error:
            if error.errno not in STORAGE:
                raise
            _exit(storage_error(error, None), debug)
        except ValueError as error:  # Hydra raises it for hydra/launcher=null, and elsewhere
            if str(error).startswith("Only one of --"):
                _exit(ConfigError(" ".join(str(error).split())), debug)
            if not str(error).startswith("Config group override must be"):
                raise
            _exit(
                ConfigError("a group is chosen by the name of one of its files, as in model=minilm."), debug
            )


def job(task: Callable[[DictConfig], float]) -> Callable[[DictConfig], float]:
    """Make a single job exit with its message only; in a sweep, Hydra reports which job failed.

    Args:
        task: Function that ``hydra.main`` decorates.
    """

    @functools.wraps(task)
    def wrapped(cfg: DictConfig) -> float:
        try:
            check_flags(cfg)
            check_known(cfg)
            _name_own_folder()
            return task(cfg)
        except UserError as error:
            if HydraConfig.get().mode is RunMode.MULTIRUN:
                raise
            _exit(error, cfg.debug is True)
        except OSError as error:
            if error.errno not in STORAGE or HydraConfig.get().mode is RunMode.MULTIRUN:
                raise
            _exit(
                storage_error(error, cfg.get("resume") or HydraConfig.get().runtime.output_dir),
                cfg.debug is True,
            )
        except (RuntimeError, MemoryError) as error:
            from sts_lightning.models.inference import is_out_of_memory, shortage  # torch is there by now

            if not is_out_of_memory(error):
                raise
            if HydraConfig.get().mode is RunMode.MULTIRUN:
                raise shortage(error) from error
            _exit(shortage(error), cfg.debug is True)
        finally:
            RunFolder(HydraConfig.get().runtime.output_dir).remove_if_empty()  # Hydra makes it first

    return wrapped


def _name_own_folder() -> None:
    """Say that a user's folder is searched: one that is here by chance would change a run unnoticed."""
    own = own_folder()
    if own is not None and is_first_process():
        log.info("configuration: %s, then that of the package", own)


def storage_error(error: OSError, folder: str | None) -> StorageError:
    """Return the error for a failed write. Files written earlier are intact: every write is atomic.

    Args:
        error: Error raised by the operating system.
        folder: Run folder, if there is one.
    """
    where = f": {error.filename}" if error.filename else ""
    message = f"{error.strerror}{where}. Files written earlier are intact."
    state = "new" if folder is None else RunFolder(Path(folder)).state
    if state == "cut":
        message += f" Fix it, then resume with: {command_line('train', path_override('resume', str(folder)))}"
    elif state != "finished":
        message += " Fix it, then start again with the same command."
    return StorageError(message)


def _exit(error: UserError, debug: bool) -> NoReturn:
    if debug:
        raise error
    stopped = isinstance(error, InterruptedRunError)
    if stopped and not is_first_process():
        sys.exit(error.exit_status)  # only the first process prints it
    print(error if stopped else f"error: {error}", file=sys.stderr)
    if isinstance(error, InterruptedRunError):
        report_requeue(error.number)
    sys.exit(error.exit_status)


def report_requeue(number: signal.Signals) -> None:
    """Queue the SLURM job of this process again if a signal announced its time limit, and say so."""
    message = requeue(number) if is_first_process() else None
    if message is not None:
        print(message, file=sys.stderr)
