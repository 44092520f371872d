"""Checks of a composed configuration, before anything is built from it."""

from __future__ import annotations

import copy
import difflib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from hydra.core.override_parser.types import Quote, QuotedString
from hydra.utils import get_method
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException
from pydantic import ValidationError

from sts_lightning.config.build import (
    LOADING,
    TOP_LEVEL,
    argument_types,
    contains_target,
    items,
    to_container,
)
from sts_lightning.config.schema import Settings
from sts_lightning.core.errors import ConfigError
from sts_lightning.core.files import as_type, check_finite

_BARE = re.compile(r"[A-Za-z0-9_./:@%+ -]+")
_VALUE = re.compile(r"[+-]?([0-9_.]+(e[+-]?[0-9]+)?|nan|inf)|null|true|false", re.IGNORECASE)
"""Words that Hydra takes for other values than texts, such as the folder 2026_01."""


GONE = {
    "loss=kendall": "loss=spearman and loss=concordance are nearest, and score no worse.",
    "loss=listmle": "loss=listnet is nearest and scores higher; loss=rankcse has its own ListMLE.",
    "loss.official": "What the paper's code does is loss=paper_code_NAME, as in loss=paper_code_pearson.",
    "auxiliary.official": "What the paper's code does is auxiliary=paper_code_NAME.",
    "data.official_repetition": "It is data.paper_code_repetition.",
    "trainer.official_gather": "It divided the gradient by the number of processes, which Adam notices "
    "by clipping alone: multiply trainer.gradient_clip_val by it.",
    "mask_repeats": "It is data.mask_repeats now, and data.parts.NAME.mask_repeats of a part of joint data.",
    "drop_repeats": "It is loss.drop_duplicates now.",
    "loss.parts": "The shards of loss=divided are loss.shards now; parts are those of loss=joint.",
    "dev=suite": "dev=stsb_clean has no test pairs either, and chose the better runs.",
}
"""What to type in place of a choice or a setting of an earlier version, also by the last name of its key."""


def suggest(key: str, known: Iterable[str]) -> str:
    """Return the closest known keys as a question.

    Keys of the same group come first. If no key is similar, those of the group are listed, or all if they are
    few.
    """
    known = [other for other in known if not other.endswith("_target_")]
    group, _, name = key.rpartition(".")
    siblings = {
        other.rpartition(".")[2]: other for other in known if group and other.rpartition(".")[0] == group
    }
    close = [siblings[other] for other in difflib.get_close_matches(name, siblings)]
    # Often only the group is missing or wrong: max_steps for trainer.max_steps.
    close += [other for other in known if other.rpartition(".")[2] == name]
    if not close and 0 < len(siblings) <= 20:
        return f"Settings of {group}: {', '.join(siblings)}."
    close = close or difflib.get_close_matches(key, known)
    if close:
        return f"Did you mean {' or '.join(close)}?"
    return f"There are: {', '.join(known)}." if 0 < len(known) <= 20 else ""


def unknown_key(key: str, hint: str) -> ConfigError:
    """Return the error for a key that does not exist, with the result of `suggest`."""
    answer = GONE.get(key, GONE.get(key.rpartition(".")[2], hint))
    return ConfigError(f"{key}: no such setting.", key=key, hint=answer)


def flatten(values: Mapping[Any, Any], prefix: str = "") -> dict[str, Any]:
    """Return the leaves of nested plain settings by dotted key; an empty group has none."""
    leaves: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        leaves |= flatten(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return leaves


def nodes(node: dict[Any, Any], key: str = "") -> Iterator[tuple[str, dict[Any, Any]]]:
    """Yield nested plain settings and those in them, with their dotted keys."""
    yield key, node
    for name, value in node.items():
        if isinstance(value, dict):
            yield from nodes(value, f"{key}.{name}".removeprefix("."))


def path_override(key: str, path: str | Path) -> str:
    """Return ``key=path`` as Hydra reads it: quoted where a bare word could not have its characters."""
    text = str(path)
    if _BARE.fullmatch(text) and text == text.strip() and not _VALUE.fullmatch(text):
        return f"{key}={text}"
    if '"' not in text and "\\" not in text:
        return f'{key}="{text}"'  # a shell, too, can quote this simply
    return f"{key}={QuotedString(text, Quote.single).with_quotes()}"


def with_home(argument: str) -> str:
    """Return an override with the home folder for ``~/`` at the start of a value, or of one of several.

    A shell expands it in some places only, and Hydra would take the quoted one for a folder of that name.
    """
    key, equals, value = argument.partition("=")
    start = re.compile(r"""((?:^|[,[] *)["']?)~(?=/)""")
    # A user without a home folder, as in some containers, keeps the ~.
    return key + equals + start.sub(lambda found: found[1] + os.path.expanduser("~"), value)  # noqa: PTH111


def format_value(value: Any) -> str:
    """Return a value as it is written on the command line."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


TWO_RUNS = (
    "Stages are runs of their own: init_from=experiment:NAME trains that experiment first, as experiment=pcc "
    "does, and init_from=RUN starts from a run."
)
"""What to type in place of stages."""


def written(value: Any) -> str:
    """Return a value as Hydra's command line has it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {written(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(written, value)) + "]"
    return path_override("", value)[1:] if isinstance(value, str | Path) else format_value(value)


def together(mistakes: Iterable[ConfigError]) -> ConfigError:
    """Return one error for all mistakes, with a line for each; for each key the first."""
    by_key: dict[str, ConfigError] = {}
    for mistake in mistakes:
        by_key.setdefault(mistake.key or str(mistake), mistake)
    first, *others = by_key.values()
    if not others:
        return first
    lines = [f"{len(by_key)} mistakes:", *map(str, by_key.values())]
    return ConfigError("\n  ".join(lines), key=first.key)


def reject(mistakes: Iterable[ConfigError]) -> None:
    """Raise one error for all mistakes, if there are any; see `together`.

    Raises:
        ConfigError: There are mistakes.
    """
    if found := list(mistakes):
        raise together(found)


def check_config(cfg: DictConfig) -> DictConfig:
    """Check a configuration against the schema, and what it names against the signatures.

    Args:
        cfg: Composed configuration; it is not changed.

    Returns:
        A copy with all interpolations resolved.

    Raises:
        ConfigError: See `check_values`; or arguments do not fit the signature of what is named.
    """
    resolved = check_values(cfg)
    mistakes = [each for key, node in items(resolved) for each in _in_target(key, node)]
    if "data" in resolved and not any(str(each.key).endswith("_target_") for each in mistakes):
        mistakes = [*_in_top_level(resolved), *mistakes]
    reject(mistakes)
    return resolved


def check_values(cfg: DictConfig) -> DictConfig:
    """Check a configuration against its schema, all that can be checked before torch is imported.

    Args:
        cfg: Composed configuration; it is not changed.

    Returns:
        A copy with all interpolations resolved, without settings that were added for others to refer to.

    Raises:
        ConfigError: A setting does not exist or is missing, or a value is of the wrong type, out of range,
            NaN or infinite, or not among the choices.
    """
    resolved = copy.deepcopy(cfg)
    mistakes: list[ConfigError] = []
    try:
        mistakes += [_missing(key) for key in sorted(OmegaConf.missing_keys(cfg))]
        OmegaConf.resolve(resolved)
    except OmegaConfBaseException as error:
        reject(mistakes)  # a missing value, to which another refers
        key = str(error.full_key or "")
        raise ConfigError(f"{key}: {str(error).splitlines()[0]}".removeprefix(": "), key=key) from error
    for group in ("data", "loss"):
        if isinstance(node := resolved.get(group), DictConfig):
            mistakes += _in_nested(group, node, group)
    values = to_container(resolved)
    schema: type[Settings] | None = getattr(OmegaConf.get_type(cfg), "settings", None)
    if schema is not None:
        for key in values.keys() - schema.model_fields.keys():
            if re.search(rf"\$\{{{re.escape(key)}[.}}]", OmegaConf.to_yaml(cfg)):  # as +width=64
                del values[key]
                with open_dict(resolved):  # it has been read
                    del resolved[key]
        mistakes += _in_values(schema, values)
    reject(mistakes)
    return resolved


def _in_nested(group: str, node: DictConfig, path: str) -> Iterator[ConfigError]:
    """Yield an error for each nested node that is a name, alone or with settings, as version 0.3 had them."""
    for name in ("parts", "terms", "inner"):
        value, new = node.get(name), "" if name == "inner" else "+"
        nested = {f"{path}.{name}": value} if not new else {}
        if new and isinstance(value, DictConfig):
            nested = {f"{path}.{name}.{part}": each for part, each in items(value)}
        for place, each in nested.items():
            if isinstance(each, DictConfig) and "_target_" in each and group not in each:
                yield from _in_nested(group, each, place)
            elif each is not None:
                chosen = each.get(group, "NAME") if isinstance(each, DictConfig) else each
                text = f"{place}: a choice within another is typed as {new}{group}@{place}={chosen}"
                hint = f"and its settings as {place}.KEY=VALUE."
                yield ConfigError(text, key=place, hint=hint)


def data_arguments(cfg: DictConfig) -> dict[str, Any]:
    """Return the arguments of the data set with their types; of joint data those that a part leaves open."""
    parts = cfg.data.get("parts")
    if not isinstance(parts, DictConfig):
        return argument_types(get_method(cfg.data["_target_"]))
    return {
        name: type_
        for node in parts.values()
        for name, type_ in argument_types(get_method(node["_target_"])).items()
        if name not in node
    }


def _missing(key: str) -> ConfigError:
    return ConfigError(f"{key} is required.", key=key, hint=f"Set it on the command line: {key}=...")


def _in_top_level(cfg: DictConfig) -> Iterator[ConfigError]:
    """Yield what is wrong with the settings of the top level that the data set takes."""
    hints = data_arguments(cfg)
    for argument, key in TOP_LEVEL.items():
        if argument in hints and argument in cfg.data:
            yield unknown_key(f"data.{argument}", f"It is one key for all data: {key}=...")
        elif argument in hints:
            yield from _in_value(key, cfg[key], hints[argument])


def _in_values(schema: type[Settings], values: Mapping[str, Any]) -> Iterator[ConfigError]:
    try:
        schema.model_validate_json(json.dumps(values, default=str))  # from JSON for tuples, as in `as_type`
    except ValidationError as error:
        found: dict[tuple[str, ...], tuple[Any, list[str]]] = {}
        for each in error.errors(include_url=False):
            value: Any = values
            path: tuple[str, ...] = ()
            for name in each["loc"]:  # it goes on with places in lists and types of unions
                if not isinstance(value, Mapping) or not (name in value or each["type"] == "missing"):
                    break
                path, value = (*path, str(name)), value.get(name)
            if each["type"] == "extra_forbidden":
                yield _unknown(schema, path)
            else:  # of a union, an error for each of its types
                found.setdefault(path, (value, []))[1].append(each["msg"])
        for path, (value, words) in found.items():
            first, *others = dict.fromkeys(words)
            text = " or ".join([first, *(each.removeprefix("Input should ") for each in others)])
            yield _unfit(".".join(path), value, text)


def _unknown(schema: type[Settings], path: Sequence[str]) -> ConfigError:
    key, (*groups, name) = ".".join(path), path
    for group in groups:
        schema = cast("type[Settings]", schema.model_fields[group].annotation)
    hint = suggest(key, [".".join([*groups, each]) for each in schema.model_fields])
    if groups == ["trainer"]:
        hint += f" Further arguments of Lightning's Trainer are set by +trainer.extra.{name}=..."
    return unknown_key(key, hint)


def _unfit(key: str, value: Any, words: str) -> ConfigError:
    if value is None:
        return _missing(key)
    setting = f"{key}={format_value(value)}"
    return ConfigError(f"{setting}: {words}.", key=key, hint=GONE.get(setting))


def check_target(path: str, node: DictConfig) -> None:
    """Check the keys and the types of values of a node against the signature of its ``_target_``.

    A node without one may hold others, as the groups ``logger`` and ``callbacks`` do.

    Raises:
        ConfigError: A target does not exist, a key is unknown, or a value has a wrong type.
    """
    reject(_in_target(path, node))


def _in_target(path: str, node: Any) -> Iterator[ConfigError]:
    if not isinstance(node, DictConfig):
        return
    if "_target_" not in node:
        for key, value in items(node):
            yield from _in_target(f"{path}.{key}", value)
        return
    try:
        hints = argument_types(get_method(node["_target_"]))  # ValueError: no signature, as builtins.dict
    except Exception as error:  # an import may raise anything
        key, reason = f"{path}._target_", " ".join(str(error).split())
        yield ConfigError(f"{key}: cannot load {node['_target_']} ({reason}).", key=key)
        return
    if path == "data" or path.startswith("data.parts."):
        hints |= LOADING | ({"batch_size": int | None} if "parts" in hints else {})
    for name, value in items(node):
        key = f"{path}.{name}"
        if name in hints:
            if not contains_target(value):
                yield from _in_value(key, value, hints[name])
            yield from _in_target(key, value)
        elif name != "_target_" and not (path.startswith("logger.") and "kwargs" in hints):  # wandb's entity
            hint = suggest(name, hints)
            if not hint.startswith("Did you mean"):  # mostly an experiment's, beside another loss or model
                hint = f"{hint} '~{key}' leaves out what an experiment sets.".strip()
            yield unknown_key(key, hint)


def _in_value(key: str, value: Any, hint: Any) -> Iterator[ConfigError]:
    """Yield what is wrong with an argument, if its type is one that pydantic reads."""
    try:
        check_finite(value := to_container(value))
        as_type(value, hint)
    except ValueError as error:
        yield _unfit(key, value, str(error).removeprefix("the content: ").partition(", got ")[0])
    except (RuntimeError, TypeError):  # pydantic has no schema for the type, or JSON no form of the value
        return
