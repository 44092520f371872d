"""Composition outside a Hydra job, and plain words for what is wrong with overrides.

Choices of groups are checked before Hydra composes them; of the rest Hydra and OmegaConf find what is wrong.
"""

from __future__ import annotations

import copy
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override, QuotedString
from hydra.errors import HydraException, OverrideParseException
from omegaconf import DictConfig, open_dict
from omegaconf.errors import OmegaConfBaseException
from yaml import MarkedYAMLError, YAMLError

from sts_lightning.config.check import (
    TWO_RUNS,
    flat_keys,
    path_override,
    suggest,
    unknown_key,
)
from sts_lightning.config.schema import register_schemas
from sts_lightning.core.conf_folders import PACKAGED, Entry, command_line, files_of, folders
from sts_lightning.core.errors import ConfigError


@contextmanager
def composing() -> Iterator[None]:
    """Let Hydra's ``compose`` read this project's configuration, and the user's own before it.

    Raises:
        ConfigError: A file is not valid YAML.
    """
    register_schemas()
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(PACKAGED), version_base="1.3"):
        try:
            yield
        except YAMLError as error:
            raise broken_yaml(error) from error


def broken_yaml(error: YAMLError) -> ConfigError:
    """Return the error for a file that is not valid YAML, with its line."""
    if not isinstance(error, MarkedYAMLError) or error.problem_mark is None:
        return ConfigError(f"a configuration is not valid YAML: {error}")
    line = f"{error.problem_mark.name}, line {error.problem_mark.line + 1}"
    return ConfigError(f"{line}: not valid YAML ({error.problem}).")


@contextmanager
def job_config(composed: DictConfig) -> Iterator[None]:
    """Resolve interpolations such as ``${hydra:runtime.choices.model}`` by the configuration of a job."""
    hydra = HydraConfig.instance()
    previous = hydra.cfg
    hydra.set_config(composed)
    try:
        yield
    finally:
        hydra.cfg = previous


def compose_job(entry: Entry, overrides: tuple[str, ...]) -> DictConfig:
    """Compose the configuration of a job with the ``hydra`` node. The result is cached: do not modify it."""
    return _composed(entry, overrides, folders())


@cache
def _composed(entry: Entry, overrides: tuple[str, ...], _folders: tuple[Path, ...]) -> DictConfig:
    with composing():
        return compose(entry, list(overrides), return_hydra_config=True)


def without_hydra(composed: DictConfig) -> DictConfig:
    """Return a copy of the configuration of a job without the ``hydra`` node, which its name may refer to."""
    cfg = copy.deepcopy(composed)
    with job_config(composed), open_dict(cfg):
        cfg.name = composed.name
        cfg.pop("hydra")
    return cfg


def compose_train(overrides: Sequence[str]) -> DictConfig:
    """Compose what ``python train.py`` would run.

    Args:
        overrides: Overrides as on the command line of ``train.py``.

    Raises:
        ConfigError: A setting or a choice does not exist.
    """
    try:
        return without_hydra(compose_job("train", tuple(overrides)))
    except (HydraException, OmegaConfBaseException) as error:
        raise explain(error, "train", overrides) from error


def explain(error: Exception, entry: Entry, overrides: Sequence[str]) -> ConfigError:
    """Return an error of composing as a `ConfigError`, with the nearest known keys where a key is unknown.

    Args:
        error: Error of Hydra or OmegaConf.
        entry: Command whose configuration was composed.
        overrides: Overrides as on its command line.
    """
    text, cause = str(error), error.__cause__
    if isinstance(cause, ConfigError):  # raised by a launcher as Hydra built it
        return cause
    if isinstance(error, OverrideParseException):
        return _unreadable(str(error.override), entry)
    if "In 'hydra/sweeper/search': Could not" in text and find_spec("optuna") is None:
        hint = "pip install 'sts-lightning[optuna]'."
        return ConfigError("hydra/sweeper=search needs Optuna's sweeper.", hint=hint)
    if values := re.search(r"Ambiguous value for argument '(.*?)'\s*\n", text, re.DOTALL):
        key, _, listed = values[1].partition("=")
        return ConfigError(
            f"{values[1]} gives {key} several values, which are a sweep.",
            key=key,
            hint=f"Add -m to run each, write a list as {shlex.quote(f'{key}=[{listed}]')}, or quote a text "
            f"with a comma: {shlex.quote(path_override(key, listed))}.",
        )
    if sweep := re.search(r"Sweep parameters '(.*)' requires --multirun", text, re.DOTALL):
        return ConfigError(f"{sweep[1]} is a sweep.", hint="Add -m to run each of its values.")
    first = "" if cause is None else str(cause).splitlines()[0]
    if value := re.match(r"Error merging override \+{0,2}(([\w.]+)=.*)", text, re.DOTALL):
        return ConfigError(f"{value[1]}: {first}.", key=value[2])
    if twice := re.search(r"(?:Multiple values for ([\w/@.]+)\.|([\w/@.]+) appears more than once)", text):
        key = twice[1] or twice[2]
        return ConfigError(
            f"{key} is chosen twice.",
            key=key,
            hint=f"Without + a choice replaces the one that is there: {key}=NAME.",
        )
    if unknown := re.search(r"Could not override '([^']+)'", text):
        return _unknown(unknown[1], entry, overrides)
    if isinstance(error, OmegaConfBaseException) and error.full_key:
        return ConfigError(f"{error.full_key}: {text.splitlines()[0]}", key=str(error.full_key))
    return ConfigError(" ".join(f"{text} {'' if first in text else first}".split()))


def _unreadable(override: str, entry: Entry) -> ConfigError:
    """Return the error for an override that Hydra's parser, which speaks of its own tokens, cannot read."""
    key, equals, value = override.partition("=")
    if not equals:
        run = "ckpt=RUN" if entry == "eval" else "resume=RUN"
        hint = f"A setting is given as key=value, a run folder as {run}."
        return ConfigError(f"{override} has no value.", hint=hint)
    return ConfigError(
        f"{override}: Hydra cannot read this.",
        key=key.lstrip("~+"),
        hint="A text with such characters needs quotes within those for the shell: "
        f"{shlex.quote(path_override(key, value))}.",
    )


def _unknown(key: str, entry: Entry, overrides: Sequence[str]) -> ConfigError:
    """Return the error for a setting that does not exist, with those that were probably meant."""
    group, _, name = key.partition(".")
    if "@" in group:
        return ConfigError(
            f"{key}: nothing has been chosen there.",
            key=key,
            hint=f"Add + to what is new, as in +{key}=NAME.",
        )
    place, _, last = key.rpartition(".")
    if place and last == group:
        return unknown_key(key, f"A choice within {group} is {group}@{place}=NAME.")
    choice = re.compile(rf"^  - /{re.escape(key)}: ", re.MULTILINE)  # as with papers=code
    if owners := [owner for owner, path in files_of("experiment").items() if choice.search(path.read_text())]:
        return unknown_key(key, f"It belongs to {' and '.join(f'experiment={owner}' for owner in owners)}.")
    known: list[str] = []
    try:
        others = [
            str(override.input_line)
            for override in OverridesParser.create().parse_overrides(list(overrides))
            if override.key_or_group != key
            and not override.key_or_group.startswith(f"{group}.")
            and not override.is_sweep_override()
        ]
        with composing():
            known = flat_keys(compose(entry, others, return_hydra_config=key.startswith("hydra.")))
    except (HydraException, OmegaConfBaseException):
        pass  # another override is wrong as well
    hint = suggest(key, known)
    if name and not any(other.startswith(f"{group}.") for other in known):  # as with regularizer=none
        line = re.compile(rf"^{re.escape(name)}:", re.MULTILINE)
        having = [choice for choice, path in files_of(group).items() if line.search(path.read_text())]
        hint = f"It belongs to {' and '.join(f'{group}={choice}' for choice in having)}." if having else hint
    return unknown_key(key, f"{hint} See `{command_line(entry, '--help')}`.".strip())


LISTS = ("callbacks", "logger")
"""Groups of which a run may have several choices, or none, given as a list."""

ELSEWHERE = ("--config-path", "-cp", "hydra.searchpath")
"""Beginnings of arguments that name further folders of choices."""

ANY_MODEL = " Any other is model=encoder model.name=ID, or model=decoder for a decoder."
"""What the list of models leaves out."""


def check_choices(arguments: Iterable[str]) -> None:
    """Reject a group that is given anything but the names of its files.

    Hydra's own messages do not say which argument is at fault, and it ignores a missing optional choice.

    Args:
        arguments: Command line; what is no override is left to Hydra.

    Raises:
        ConfigError: A choice does not exist, or is no name.
    """
    arguments = list(arguments)
    if any(re.match(r"[+~]*stages\b", argument) for argument in arguments):
        raise ConfigError("stages: no such setting.", key="stages", hint=TWO_RUNS)
    if any(argument.startswith(ELSEWHERE) for argument in arguments):
        return  # Hydra finds the user's choices
    parser = OverridesParser.create()
    for argument in arguments:
        try:
            override = parser.parse_override(argument)
        except HydraException:  # an option of Hydra's such as -m, or a mistake that it reports itself
            continue
        group = override.key_or_group
        choices = list(files_of(group))
        if not (group and choices) or group.startswith("hydra/") or override.is_delete():
            continue
        for value in _given(override):
            _check_choice(argument, group, value, choices)


def _given(override: Override) -> Sequence[Any]:
    """Return the values of an override: those of a sweep over choices, or the one that is given."""
    if not override.is_sweep_override():
        return [override.value()]
    if not isinstance(override.value(), ChoiceSweep):
        return []
    return [item.text if isinstance(item, QuotedString) else item for item in override.sweep_iterator()]


def _check_choice(argument: str, group: str, value: Any, choices: list[str]) -> None:
    if isinstance(value, dict):  # values of the settings themselves, which the schema checks
        return
    known = ", ".join(choices)
    for name in value if group in LISTS and isinstance(value, list) else [value]:
        if not isinstance(name, str):
            raise ConfigError(f"{argument}: {group} is chosen by name among {known}.", key=group)
        if name not in choices:
            listed = f"There are: {known}.{ANY_MODEL if group == 'model' else ''}"
            hint = _meant(group, name) or suggest(name, choices) or listed
            noun = {"callbacks": "callback", "papers": "variant"}.get(group, group)
            raise ConfigError(f"{argument}: there is no {noun} named {name!r}.", key=group, hint=hint)


def _meant(group: str, name: str) -> str:
    """Return how to give the model, file or template that was typed for a choice; empty for another name."""
    elsewhere = "/" in name or (bool(name) and Path(name).exists())
    if group == "model" and elsewhere:
        setting = shlex.quote(path_override("model.name", name))
        return f"Any model is model=encoder {setting}, or model=decoder for a decoder."
    if group == "data" and (elsewhere or Path(name).suffix):
        setting = shlex.quote(path_override("path", name))
        if Path(name).suffix:
            hub = Path(name).suffix.lower() in (".arrow", ".json")  # what `datasets` alone reads
            if not hub:
                return f"Your file is {setting}; its columns decide the data."
            return f"Your scored pairs are data=pairs_hub {setting}."
        return f"Scored pairs of the hub or of a folder are data=pairs_hub {setting}."
    if group == "prompt" and (" " in name or "{" in name):
        return f"Your template is {shlex.quote(path_override('prompt.template', name))}."
    return ""
