"""The commands that Hydra reads, `train` and `eval`: from the command line to the work, and its errors."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import re
import sys
from collections.abc import Iterator, Sequence

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from sts_lightning.cli.errors import asks_for_traces, reporting
from sts_lightning.config.check import TWO_RUNS, check_values, path_override, with_home
from sts_lightning.config.compose import FAULTS, check_choices, explain
from sts_lightning.config.folders import PACKAGED, Entry, set_user_folder, user_folder
from sts_lightning.config.schema import register_schemas
from sts_lightning.core.errors import ConfigError
from sts_lightning.core.hardware import set_cpu_defaults, set_gpu_defaults
from sts_lightning.core.processes import is_first_process
from sts_lightning.core.signals import listening, stop_with_parent, unmasked
from sts_lightning.runs.folder import RunFolder, folder_of_command, timed_folder

log = logging.getLogger(__name__)


SHORTAGE: dict[Entry, str | None] = {
    "train": "trainer.micro_batch_size=auto, model.quantization=4bit or a smaller model needs less, and "
    "trainer=cpu takes the host's memory.",
    "eval": None,
}
"""What to do where memory runs out."""


def run(entry: Entry) -> None:
    """Run a command with the command line of this process, and report its errors.

    Args:
        entry: The command, which has the name of its configuration.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"  # raise exceptions instead of printing them
    set_cpu_defaults()
    set_gpu_defaults()
    failed: list[Exception] = []

    def job(cfg: DictConfig) -> float:
        here = HydraConfig.get()
        try:
            folder = user_folder()
            if folder is not None and is_first_process():  # one that is here by chance would go unnoticed
                log.info("configuration: %s, then that of the package", folder)
            return _work(entry, cfg)
        except Exception as error:
            if here.mode is RunMode.MULTIRUN:  # Hydra says which of its jobs failed
                raise
            failed.append(error)  # raised below: here Hydra would print a line of its own
            return math.nan
        finally:
            RunFolder(here.runtime.output_dir).remove_if_empty()  # Hydra makes it first

    with listening(), reporting(asks_for_traces(sys.argv), SHORTAGE[entry]), _explaining(entry):
        stop_with_parent()
        set_user_folder(sys.argv[1:])
        sys.argv[1:] = as_settings(entry, sys.argv[1:])
        check_choices(sys.argv[1:], entry)
        if entry == "train":
            sys.argv[1:] = with_choices(sys.argv[1:])
        hydra.main(version_base="1.3", config_path=str(PACKAGED), config_name=entry)(job)()
        if failed:
            raise failed[0]


def _work(entry: Entry, cfg: DictConfig) -> float:
    if entry == "train":
        from sts_lightning.workflows.start import train

        return train(cfg)
    check_values(cfg)
    from sts_lightning.workflows.evaluate import evaluate  # loads torch

    return evaluate(cfg)


register_schemas()
OmegaConf.register_new_resolver("timed_folder", timed_folder, use_cache=True)
OmegaConf.register_new_resolver("run_folder", folder_of_command, use_cache=True)


GONE_OPTIONS = {
    "trust": "A run that is resumed may run code that its folder names with trust=true; a model that brings "
    "code along, with model.trust_remote_code=true.",
    "stage": TWO_RUNS,
}
"""Words in the names of options of version 0.3, with what to type instead."""


def as_settings(entry: Entry, arguments: Sequence[str]) -> list[str]:
    """Return a command line with options as settings, as it reaches Hydra, jobs and further processes.

    ``--debug`` is ``traceback=true``, and ``--plan``, alone or with a card, ``plan=...``. Settings come
    first: Hydra's parser takes them in a row alone, as in ``path=... --cfg job``.

    Args:
        entry: The command.
        arguments: Command line without the name of the program.

    Raises:
        ConfigError: An option is no option any more.
    """
    settings, options = list[str](), list[str]()
    left = [with_home(argument) for argument in arguments]
    while left:
        argument = left.pop(0)
        name, equals, value = argument.partition("=")
        if name.startswith("--") and (hints := [hint for word, hint in GONE_OPTIONS.items() if word in name]):
            raise ConfigError(f"{name} is no option any more.", key=name, hint=hints[0])
        if argument == "--debug":
            settings.append("traceback=true")
        elif name == "--plan" and entry == "train":
            if not equals and left and re.fullmatch(r"[^-~=][^=]*", left[0]):  # no option and no setting
                value = left.pop(0)
            settings.append(path_override("plan", value) if value else "plan=true")
        else:
            is_setting = argument.startswith("~") or (equals and not argument.startswith("-"))
            (settings if is_setting else options).append(argument)
    return [*settings, *options]


COMPOSING = ("--cfg", "-c", "--info", "-i")
"""Options of Hydra that print a configuration, for other programs to read."""


def with_choices(arguments: list[str]) -> list[str]:
    """Return a command line with what the user's file decides, as if it were typed.

    Args:
        arguments: Command line of `train.py` without the name of the program.
    """
    given = {argument.partition("=")[0] for argument in arguments}
    if not {"path", "+path", "++path"} & given:
        return arguments
    said = is_first_process() and not given & set(COMPOSING)
    with showing_progress() if said else contextlib.nullcontext():
        from sts_lightning.config.by_file import choose_by_file  # most commands name no file

        return [*choose_by_file(arguments), *arguments]


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


USAGE = 2
"""Exit status of Hydra's command line for options that it does not have."""


@contextlib.contextmanager
def _explaining(entry: Entry) -> Iterator[None]:
    try:
        with unmasked():  # a stop does not become an error of the configuration
            yield
    except SystemExit as error:
        if error.code == USAGE:
            print("Settings are given as key=value, without dashes, as in seed=1.", file=sys.stderr)
        raise
    except FAULTS as error:
        given = [text for text in sys.argv[1:] if "=" in text and not text.startswith("-")]
        raise explain(error, entry, given) from error
