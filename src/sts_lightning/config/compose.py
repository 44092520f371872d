"""Composition outside a Hydra job, and plain words for what is wrong with overrides.

Overrides and choices of groups are checked before Hydra composes them; of the rest Hydra and OmegaConf find
what is wrong.
"""

from __future__ import annotations

import copy
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra._internal.utils import get_args_parser
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override, OverrideType
from hydra.errors import HydraException, OverrideParseException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from sts_lightning.config.check import (
    GONE,
    TWO_RUNS,
    format_value,
    nodes,
    path_override,
    reject,
    suggest,
    together,
    unknown_key,
)
from sts_lightning.config.folders import PACKAGED, Entry, command_line, files_of, folders
from sts_lightning.config.schema import register_schemas
from sts_lightning.core.errors import ConfigError

FAULTS = (HydraException, OmegaConfBaseException, YAMLError)
"""What composing raises for mistakes of the user's; see `explain`."""


@contextmanager
def composing() -> Iterator[None]:
    """Let Hydra's ``compose`` read this project's configuration, and the user's own before it."""
    register_schemas()
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(PACKAGED), version_base="1.3"):
        yield


@contextmanager
def explaining(overrides: Sequence[str], entry: Entry = "train") -> Iterator[None]:
    """Turn errors of composing into ones that say what to type instead; see `explain`."""
    try:
        yield
    except FAULTS as error:
        raise explain(error, entry, overrides) from error


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
    with explaining(overrides):
        return without_hydra(compose_job("train", tuple(overrides)))


def explain(error: Exception, entry: Entry, overrides: Sequence[str]) -> ConfigError:
    """Return an error of composing as a `ConfigError`, with the nearest known keys where a key is unknown.

    Args:
        error: Error of Hydra or OmegaConf.
        entry: Command whose configuration was composed.
        overrides: Overrides as on its command line.
    """
    text, cause = str(error), error.__cause__
    if isinstance(error, OverrideParseException):
        return _unreadable(str(error.override), entry)
    first, key = "" if cause is None else str(cause).splitlines()[0], str(getattr(cause, "full_key", ""))
    if text.startswith("Could not override") and "@" not in text:
        return _unknown(max(text.split("'")[1], key, key=len), entry, overrides)
    if text.startswith(merging := "Error merging override "):
        override = text.removeprefix(merging).lstrip("+")
        return ConfigError(f"{override}: {first}.", key=override.partition("=")[0])
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


def _unknown(first: str, entry: Entry, overrides: Sequence[str]) -> ConfigError:
    """Return the error for the settings that do not exist, with those that were probably meant.

    Args:
        first: The one that Hydra has found.
        entry: Command whose configuration was composed.
        overrides: Overrides as on its command line.
    """
    known, unknown = list[str](), [first]
    with suppress(*FAULTS):  # a choice is wrong as well
        given = OverridesParser.create().parse_overrides(list(overrides))
        choices = [str(each.input_line) for each in given if not _sets(each) and not each.is_sweep_override()]
        of_hydra = any(each.key_or_group.startswith("hydra.") for each in given)
        with composing():
            values: Any = OmegaConf.to_container(compose(entry, choices, return_hydra_config=of_hydra))
        known = [f"{key}.{name}".removeprefix(".") for key, node in nodes(values) for name in node]
        unknown += [each.key_or_group for each in given if _sets(each) and each.key_or_group not in known]
    return together(_unknown_setting(key, known, entry) for key in unknown)


def _sets(override: Override) -> bool:
    """Return whether an override sets a value where there is one already."""
    key, is_choice = override.key_or_group, not isinstance(override.value(), dict)
    return override.type is OverrideType.CHANGE and "/" not in key and not (is_choice and files_of(key))


def _unknown_setting(key: str, known: Sequence[str], entry: Entry) -> ConfigError:
    if key in GONE:
        return unknown_key(key, GONE[key])
    group, _, name = key.partition(".")
    place, _, last = key.rpartition(".")
    if place and last == group:
        return unknown_key(key, f"A choice within {group} is {group}@{place}=NAME.")
    owners = _files_with("experiment", f"  - /{key}: ")  # as with papers=code
    if name and not any(other.startswith(f"{group}.") for other in known):  # as with regularizer=none
        owners += _files_with(group, f"{name}:")
    hint = f"It belongs to {' and '.join(owners)}." if owners else suggest(key, known)
    return unknown_key(key, f"{hint} See `{command_line(entry, '--help')}`.".strip())


def _files_with(group: str, start: str) -> list[str]:
    """Return the choices of a group whose files have a line with a start."""
    return [
        f"{group}={name}"
        for name, path in files_of(group).items()
        if any(line.startswith(start) for line in path.read_text().splitlines())
    ]


LISTS = ("callbacks", "logger")
"""Groups of which a run may have several choices, or none, given as a list."""

ANY_MODEL = " Any other is model=encoder model.name=ID, or model=decoder for a decoder."
"""What the list of models leaves out."""


def check_choices(arguments: Iterable[str], entry: Entry = "train") -> None:
    """Reject overrides that cannot be read and choices that do not exist, together.

    Hydra's own messages do not say which argument is at fault, and it ignores a missing optional choice.

    Args:
        arguments: Command line.
        entry: Command that it is of.

    Raises:
        ConfigError: An override is wrong.
    """
    # Hydra's own parser alone tells values of its options, as in -cd conf, from overrides; it is not public.
    given, others = get_args_parser().parse_known_args(list(arguments))
    parser, mistakes = OverridesParser.create(), list[ConfigError]()
    overrides: list[Override] = []
    for text in [*given.overrides, *(text for text in others if not text.startswith("-"))]:
        try:
            overrides.append(parser.parse_override(text))
        except HydraException:
            mistakes.append(_unreadable(text, entry))
    keys = {override.key_or_group for override in overrides}
    if any(key.partition(".")[0] == "stages" for key in keys):
        mistakes.append(ConfigError("stages: no such setting.", key="stages", hint=TWO_RUNS))
    if not (given.config_path or "hydra.searchpath" in keys):  # Hydra finds the user's choices there
        mistakes += [mistake for override in overrides for mistake in _wrong_choices(override)]
    reject(mistakes)


def values_of(override: Override | None) -> list[Any]:
    """Return the values of an override: of a sweep over choices all; None: it is not typed."""
    if override is None or not override.is_sweep_override():
        return [None if override is None else override.value()]
    swept = override.value()
    return [Override._convert_value(each) for each in swept.list] if isinstance(swept, ChoiceSweep) else []


def _wrong_choices(override: Override) -> Iterator[ConfigError]:
    """Yield an error for each value of a group that is not the name of one of its files."""
    argument, group = override.input_line, override.key_or_group
    choices = list(files_of(group)) if group else []
    if not choices or group.startswith("hydra/") or override.is_delete():
        return
    for value in values_of(override):
        if isinstance(value, dict):  # values of the settings themselves, which the schema checks
            continue
        names = value if group in LISTS and isinstance(value, list) else [value]
        for name in names:
            if name not in choices:
                typed = format_value(name)
                listed = f"There are: {', '.join(choices)}.{ANY_MODEL if group == 'model' else ''}"
                answer = GONE.get(f"{group}={typed}") or _suggest_choice(group, typed)
                hint = answer or suggest(typed, choices) or listed
                noun = {"callbacks": "callback", "papers": "variant"}.get(group, group)
                yield ConfigError(f"{argument}: there is no {noun} named {typed!r}.", key=group, hint=hint)


def _suggest_choice(group: str, name: str) -> str:
    """Return how to give the model, file or template that was typed for a choice; empty for another name."""
    suffix, elsewhere = Path(name).suffix.lower(), "/" in name or (bool(name) and Path(name).exists())
    if group == "model" and elsewhere:
        setting = shlex.quote(path_override("model.name", name))
        return f"Any model is model=encoder {setting}, or model=decoder for a decoder."
    if group == "data" and (elsewhere or suffix):
        setting = shlex.quote(path_override("path", name))
        if suffix and suffix not in (".arrow", ".json"):  # what `datasets` alone reads
            return f"Your file is {setting}; its columns decide the data."
        return f"Your scored pairs are data=pairs_hub {setting}."
    if group == "prompt" and (" " in name or "{" in name):
        return f"Your template is {shlex.quote(path_override('prompt.template', name))}."
    return ""
