"""The shell around a Hydra entry point: one clear message for what the user can mend."""

from __future__ import annotations

import errno
import functools
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import ConfigCompositionException, HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.build import flat_keys, suggest
from sts_lightning.errors import ConfigError, InterruptedRunError, StorageError, UserError
from sts_lightning.interrupts import listening, signal_name, stopping_signal
from sts_lightning.runs.folder import RunFolder

STORAGE = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.EFBIG,
    errno.ENAMETOOLONG,
)
"""Of an OSError that says that a file cannot be written."""


def run(main: Callable[[], Any], config_path: str, config_name: str) -> None:
    """Run a function decorated with ``hydra.main`` and turn errors into messages and exit codes.

    Exit statuses: 0 done, 1 an error, 3 the run has finished already, 75 another process runs in the folder,
    130 stopped by Ctrl-C, 143 by SIGTERM, 128 + N by signal N. ``debug=true`` on the command line shows the
    stack trace of every error.

    Args:
        main: The decorated function.
        config_path: Absolute path of the configuration folder, for suggestions.
        config_name: Name of the primary configuration.
    """
    debug = any(argument.lower() in ("debug=true", "+debug=true") for argument in sys.argv[1:])
    os.environ["HYDRA_FULL_ERROR"] = "1"  # hands exceptions on instead of printing them
    with listening():
        try:
            main()
        except UserError as error:
            _leave(error, debug)
        except KeyboardInterrupt as error:  # a run that has begun says how it is resumed
            number = stopping_signal(error) or signal.SIGINT
            message = f"stopped by {signal_name(number)}. The same command starts it again."
            _leave(InterruptedRunError(message, number), debug)
        except (HydraException, OmegaConfBaseException) as error:
            _leave(ConfigError(_explain(error, config_path, config_name)), debug)
        except OSError as error:
            if error.errno not in STORAGE:
                raise
            _leave(storage_error(error, None), debug)
        except ValueError as error:  # what Hydra raises for model=null or loss=5
            if not str(error).startswith("Config group override must be"):
                raise
            _leave(ConfigError(_explain_group(Path(config_path), sys.argv[1:])), debug)


def _explain_group(conf: Path, arguments: Sequence[str]) -> str:
    """Which group was given something other than the name of a choice, and what its choices are."""
    for argument in arguments:
        try:
            override = OverridesParser.create().parse_override(argument)
        except HydraException:  # an option of Hydra's, such as -m
            continue
        key = str(override.key_or_group)
        choices = sorted(path.stem for path in (conf / key).glob("*.yaml"))
        if choices and not isinstance(override.value(), str | list):
            return f"{argument}: {key} is chosen by name among {', '.join(choices)}."
    return "a group is chosen by the name of one of its files, as in model=minilm."


def job(task: Callable[[DictConfig], float]) -> Callable[[DictConfig], float]:
    """Let a single job leave with its message alone; in a sweep, Hydra says which job failed.

    Args:
        task: The function that ``hydra.main`` decorates.
    """

    @functools.wraps(task)
    def wrapped(cfg: DictConfig) -> float:
        try:
            return task(cfg)
        except UserError as error:
            if HydraConfig.get().mode is RunMode.MULTIRUN:
                raise
            _leave(error, cfg.debug)
        except OSError as error:
            if error.errno not in STORAGE or HydraConfig.get().mode is RunMode.MULTIRUN:
                raise
            _leave(storage_error(error, cfg.get("resume") or HydraConfig.get().runtime.output_dir), cfg.debug)

    return wrapped


def storage_error(error: OSError, folder: str | None) -> StorageError:
    """What to say when a file cannot be written; those before it are whole, since none is written in place.

    Args:
        error: What the system said.
        folder: The run folder, if there is one.
    """
    where = f": {error.filename}" if error.filename else ""
    message = f"{error.strerror}{where}. Finished files are whole."
    state = "new" if folder is None else RunFolder(Path(folder)).state
    if state == "cut":
        message += f" Fix it, then resume with: python {Path(sys.argv[0]).name} resume={folder}"
    elif state != "finished":
        message += " Fix it, then start again with the same command."
    return StorageError(message)


def _leave(error: UserError, debug: bool) -> NoReturn:
    if debug:
        raise error
    stopped = isinstance(error, InterruptedRunError)
    if stopped and os.environ.get("LOCAL_RANK", "0") != "0":
        sys.exit(error.exit_status)  # the first of several processes says it
    print(error if stopped else f"error: {error}", file=sys.stderr)
    sys.exit(error.exit_status)


def _explain(error: Exception, config_path: str, config_name: str) -> str:
    """A composition error in a sentence, with the nearest known key where a key is unknown."""
    if "In 'hydra/sweeper/search': Could not" in str(error) and find_spec("optuna") is None:
        return "hydra/sweeper=search needs Optuna's sweeper: pip install 'sts-lightning[optuna]'."
    cause = error.__cause__
    unknown = re.search(r"Could not override '([^']+)'", str(error))
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if unknown is None or not isinstance(error, ConfigCompositionException):
        detail = (
            ""
            if cause is None or str(cause).splitlines()[0] in str(error)
            else f" {str(cause).splitlines()[0]}"
        )
        return f"{' '.join(lines)}{detail}"
    key = unknown.group(1)
    known = _known_keys(config_path, config_name, key)
    if cause is not None and key in known:
        return f"{key}: {str(cause).splitlines()[0]}"
    return f"{key}: no such setting.{suggest(key, known)} See `python {Path(sys.argv[0]).name} --help`."


def _known_keys(config_path: str, config_name: str, key: str) -> list[str]:
    """The keys that the command line composes without the override that failed."""
    from hydra import compose, initialize_config_dir

    overrides = [
        argument
        for argument in sys.argv[1:]
        if "=" in argument and not argument.startswith("-") and argument.split("=")[0].lstrip("+~") != key
    ]
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(config_path, version_base="1.3"):
            return flat_keys(compose(config_name, overrides))
    except (HydraException, OmegaConfBaseException):
        return []
