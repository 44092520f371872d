"""Checks of a composed configuration, before anything is built from it."""

from __future__ import annotations

import copy
import dataclasses
import difflib
import os
import re
import shlex
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.utils import get_method
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.build import LOADING, SHARED, argument_types, contains_target, items, plain
from sts_lightning.config.schema import TrainConfig
from sts_lightning.core.errors import ConfigError
from sts_lightning.core.files import as_type

_BARE = re.compile(r"[A-Za-z0-9_./:@%+ -]+")
_VALUE = re.compile(r"[+-]?([0-9_.]+(e[+-]?[0-9]+)?|nan|inf)|null|true|false", re.IGNORECASE)
"""Words that Hydra takes for other values than texts, such as the folder 2026_01."""


def suggest(key: str, known: Iterable[str]) -> str:
    """Return the closest known keys as a question.

    Keys of the same group come first. If no key is similar, those of the group are listed, or all if they are
    few.
    """
    known = list(known)
    group, _, name = key.rpartition(".")
    siblings = [other for other in known if group and other.rpartition(".")[0] == group]
    close = difflib.get_close_matches(key, siblings, n=3, cutoff=0.8)
    # Often only the group is missing or wrong: max_steps for trainer.max_steps.
    close += [other for other in known if other.rpartition(".")[2] == name and other not in close]
    if not close and siblings:
        names = [other.rpartition(".")[2] for other in siblings]
        close = [f"{group}.{other}" for other in difflib.get_close_matches(name, names, n=3)]
        if not close and len(names) <= 20:
            return f"Settings of {group}: {', '.join(names)}."
    close = close or difflib.get_close_matches(key, known, n=3)
    if close:
        return f"Did you mean {' or '.join(close)}?"
    return f"There are: {', '.join(known)}." if 0 < len(known) <= 20 else ""


def unknown_key(key: str, hint: str) -> ConfigError:
    """Return the error for a key that does not exist, with the result of `suggest`."""
    return ConfigError(f"{key}: no such setting.", key=key, hint=hint)


def flat(values: Mapping[Any, Any], prefix: str = "") -> dict[str, Any]:
    """Return the leaves of nested plain settings by dotted key; an empty group has none."""
    leaves: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        leaves |= flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return leaves


def flat_keys(cfg: DictConfig, prefix: str = "") -> list[str]:
    """Return all keys of a configuration in dotted form."""
    keys = []
    for key in map(str, cfg):
        if key == "_target_":
            continue
        keys.append(f"{prefix}{key}")
        node = cfg._get_node(key)
        if isinstance(node, DictConfig) and not node._is_missing() and not node._is_none():
            keys += flat_keys(node, f"{prefix}{key}.")
    return keys


def path_override(key: str, path: str | Path) -> str:
    """Return ``key=path`` as Hydra reads it: quoted where a bare word could not have its characters."""
    text = str(path)
    if _BARE.fullmatch(text) and text == text.strip() and not _VALUE.fullmatch(text):
        return f"{key}={text}"
    if '"' not in text and "\\" not in text:
        return f'{key}="{text}"'  # a shell, too, can quote this simply
    # A backslash is one, but for those before a quote.
    quoted = re.sub(r"(\\*)('|$)", lambda end: end[1] * 2 + end[2].replace("'", "\\'"), text)
    return f"{key}='{quoted}'"


def with_home(argument: str) -> str:
    """Return an override with the home folder for ``~/`` at the start of a value, or of one of several.

    A shell expands it in some places only, and Hydra would take the quoted one for a folder of that name.
    """
    key, equals, value = argument.partition("=")
    start = re.compile(r"""((?:^|[,[] *)["']?)~(?=/)""")
    # A user without a home folder, as in some containers, keeps the ~.
    return key + equals + start.sub(lambda found: found[1] + os.path.expanduser("~"), value)  # noqa: PTH111


def shown(value: Any) -> str:
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
    return path_override("", value)[1:] if isinstance(value, str | Path) else shown(value)


LARGEST = 1e12
"""Magnitude of the largest number in a configuration."""


def check_config(cfg: DictConfig) -> DictConfig:
    """Check required values, numbers, choices, and each group that has a ``_target_`` against its signature.

    Args:
        cfg: Composed configuration; it is not changed.

    Returns:
        A copy with all interpolations resolved.

    Raises:
        ConfigError: See `check_values`; or a group does not fit the signature of what it names.
    """
    resolved = check_values(cfg)
    for key, node in items(resolved):
        if isinstance(node, DictConfig):
            check_target(key, node)
    _check_shared(resolved)
    return resolved


def check_values(cfg: DictConfig) -> DictConfig:
    """Check required values, numbers and choices, all that can be checked before torch is imported.

    Args:
        cfg: Composed configuration; it is not changed.

    Returns:
        A copy with all interpolations resolved.

    Raises:
        ConfigError: A value is missing, of the wrong type, out of range, NaN or infinite, or not among the
            choices.
    """
    resolved = copy.deepcopy(cfg)
    try:
        if missing := sorted(OmegaConf.missing_keys(cfg)):
            raise _missing(missing[0])
        OmegaConf.resolve(resolved)
    except OmegaConfBaseException as error:
        key = str(error.full_key or "")
        raise ConfigError(f"{key}: {str(error).splitlines()[0]}".removeprefix(": "), key=key) from error
    _check_nested(resolved)
    _check_groups(resolved)
    _check_finite(resolved, "")
    _check_fields(resolved, "")
    return resolved


NESTED = {"data": ("parts",), "loss": ("parts", "terms", "inner")}
"""Settings of groups that hold nodes of the same group."""


def _check_nested(cfg: DictConfig) -> None:
    """Reject names of choices in settings of `NESTED`, as version 0.3 had them: Hydra composes choices."""
    named = {
        key: words
        for group in NESTED
        if isinstance(node := cfg.get(group), DictConfig)
        for key, words in _named_nodes(group, node, group)
    }
    if named:
        first = next(iter(named.values())).split()[0]
        entry = first.lstrip("+").replace("=", ": ")
        raise ConfigError(
            f"{', '.join(named)}: a choice within another is typed as {' '.join(named.values())}",
            key=next(iter(named)),
            hint=f"(In the defaults list of a file: - {'' if first[0] == '+' else 'override '}/{entry})",
        )


def _named_nodes(group: str, node: DictConfig, path: str) -> Iterator[tuple[str, str]]:
    """Yield the key of each nested node that is a name, alone or with settings, and how it is typed."""
    for key in NESTED[group]:
        value = node.get(key)
        nested = {key: value} if key == "inner" else {}
        if key != "inner" and isinstance(value, DictConfig):  # `parts` of a loss may be a number
            nested = {f"{key}.{name}": each for name, each in items(value)}
        for name, each in nested.items():
            place = f"{path}.{name}"
            settings = plain(each) if isinstance(each, DictConfig) else {group: each}
            if "_target_" in settings and group not in settings:
                yield from _named_nodes(group, each, place)
            elif each is not None:
                words = [f"{'' if key == 'inner' else '+'}{group}@{place}={settings.pop(group, 'NAME')}"]
                for name, one in settings.items():  # what all data share is new in a part
                    new = "+" if name in SHARED else ""
                    words.append(shlex.quote(f"{new}{place}.{name}={written(one)}"))
                yield place, " ".join(words)


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


def check_known(cfg: DictConfig, path: str = "") -> None:
    """Check that each key of a typed group is a setting; nothing would read another one.

    On the top level a setting may be added that others refer to, as in ``+width=64``.

    Raises:
        ConfigError: A key was added to a typed group, and nothing reads it.
    """
    schema = OmegaConf.get_type(cfg)
    if not dataclasses.is_dataclass(schema):
        return
    fields = [field.name for field in dataclasses.fields(schema)]
    text = "" if path else OmegaConf.to_yaml(cfg)
    for name in map(str, cfg):
        if name not in fields and not re.search(rf"\$\{{{re.escape(name)}[.}}]", text):
            hint = suggest(f"{path}{name}", [f"{path}{key}" for key in fields])
            if path == "trainer.":
                hint += f" Further arguments of Lightning's Trainer are set by +trainer.extra.{name}=..."
            raise unknown_key(f"{path}{name}", hint)
        child = cfg._get_node(name)
        if isinstance(child, DictConfig) and not child._is_interpolation() and not child._is_none():
            check_known(child, f"{path}{name}.")


def _missing(key: str) -> ConfigError:
    return ConfigError(f"{key} is required.", key=key, hint=f"Set it on the command line: {key}=...")


def _check_shared(cfg: DictConfig) -> None:
    """Check the settings of the top level that the data set takes against its signature."""
    if OmegaConf.get_type(cfg) is not TrainConfig:
        return
    hints = data_arguments(cfg)
    for argument, key in SHARED.items():
        if argument in hints and argument in cfg.data:
            hint = f"It is one key for all data: {key}=..."
            raise ConfigError(f"data.{argument}: no such setting.", key=f"data.{argument}", hint=hint)
        if argument in hints:
            _check_type(key, cfg[key], hints[argument])


def _check_groups(cfg: DictConfig) -> None:
    """Check that each untyped group of the configuration describes what is to be built."""
    schema = OmegaConf.get_type(cfg)
    for field in dataclasses.fields(schema) if dataclasses.is_dataclass(schema) else ():
        count, value = field.metadata.get("group"), cfg[field.name]
        absent = value is None or (isinstance(value, DictConfig) and not value)
        if count is None or (count == "optional" and absent):
            continue
        nodes = {field.name: value}
        if count == "named":
            nodes = {f"{field.name}.{name}": node for name, node in items(value)}
        for key, node in nodes.items():
            if not isinstance(node, DictConfig) or not isinstance(node.get("_target_"), str):
                raise ConfigError(
                    f"{key} must have a _target_, the class or function that builds it.",
                    key=key,
                    hint=f"Choose it by name, as in {field.name}=<a file of conf/{field.name}>.",
                )


def _check_finite(node: DictConfig | ListConfig, prefix: str) -> None:
    """Reject NaN, infinity and astronomical numbers in any setting; no setting has a meaning for them."""
    pairs = items(node) if isinstance(node, DictConfig) else ((str(i), v) for i, v in enumerate(node))
    for key, value in pairs:
        if isinstance(value, DictConfig | ListConfig):
            _check_finite(value, f"{prefix}{key}.")
        elif isinstance(value, int | float) and not abs(value) <= LARGEST:  # NaN, too, is not
            raise ConfigError(f"{prefix}{key}={value} is no number up to {LARGEST:g}.", key=f"{prefix}{key}")


def _check_fields(node: DictConfig, prefix: str) -> None:
    """Check the schema's constraints besides types: choices, ranges, and the lengths of tuples."""
    schema = OmegaConf.get_type(node)
    fields = {f.name: f for f in dataclasses.fields(schema)} if dataclasses.is_dataclass(schema) else {}
    hints = typing.get_type_hints(schema) if fields else {}
    for key, value in items(node):
        path = f"{prefix}{key}"
        if key in fields:
            choices, must = (fields[key].metadata.get(name) for name in ("choices", "must"))
            if isinstance(value, str) and not value.strip():
                raise ConfigError(f"{path} is blank.", key=path, hint="Give a value, or leave it out.")
            if choices is not None:
                _check_choice(path, value, choices)
            if typing.get_origin(hints[key]) is tuple:  # OmegaConf checks their items, but not their number
                _check_type(path, value, hints[key])
            each = value if typing.get_origin(hints[key]) in (list, tuple) else [value]
            optional = hints[key] is not Any and _allows_none(hints[key])
            if must is not None and not all(
                must[0](item) for item in each if not (item is None and optional)
            ):
                raise ConfigError(f"{path} must {must[1]}, got {value}.", key=path)
        if isinstance(value, DictConfig):
            _check_fields(value, f"{path}.")


def _check_choice(key: str, value: Any, choices: Sequence[Any]) -> None:
    if not any(value == choice and type(value) is type(choice) for choice in choices):  # 1 == True
        words = {None: "null", True: "true", False: "false"}
        known = [words.get(choice, str(choice)) for choice in choices]
        longer = [choice for choice in known if str(value) and choice.startswith(str(value))]
        close = [*longer, *difflib.get_close_matches(str(value), known, n=1)]
        raise ConfigError(
            f"{key}={value} is not among {', '.join(known)}.",
            key=key,
            hint=f"Did you mean {close[0]}?" if close else None,
        )


def check_target(path: str, node: DictConfig) -> None:
    """Check the keys and the types of values of a node against the signature of its ``_target_``.

    A node without one may hold others, as the groups ``logger`` and ``callbacks`` do.

    Raises:
        ConfigError: A target does not exist, a key is unknown, or a value has a wrong type.
    """
    if "_target_" not in node:
        for key, value in items(node):
            if isinstance(value, DictConfig):
                check_target(f"{path}.{key}", value)
        return
    try:
        hints = argument_types(get_method(node["_target_"]))  # ValueError: no signature, as builtins.dict
    except Exception as error:  # an import may raise anything
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"{path}._target_: cannot load {node['_target_']} ({reason}).", key=f"{path}._target_"
        ) from error
    if path == "data" or path.startswith("data.parts."):
        hints |= LOADING
    if path == "data" and "parts" in hints:
        hints["batch_size"] = int | None
    for key, value in items(node):
        if key == "_target_":
            continue
        if key not in hints:
            if path.startswith("logger.") and "kwargs" in hints:
                continue  # of the library, such as wandb's entity
            hint = suggest(key, hints)
            if not hint.startswith("Did you mean"):  # mostly an experiment's, beside another loss or model
                hint = f"{hint} '~{path}.{key}' leaves out what an experiment sets.".strip()
            raise unknown_key(f"{path}.{key}", hint)
        if not contains_target(value):
            _check_type(f"{path}.{key}", value, hints[key])
        if isinstance(value, DictConfig):
            check_target(f"{path}.{key}", value)


def _check_type(key: str, value: Any, hint: Any) -> None:
    """Check a value against a `Literal` or a type that pydantic reads; other hints are not checked."""
    if typing.get_origin(hint) is typing.Literal:
        _check_choice(key, value, typing.get_args(hint))
        return
    if value is None and not _allows_none(hint):
        raise _missing(key)
    try:
        as_type(plain(value), hint)
    except ValueError as error:
        name = hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
        raise ConfigError(f"{key}={value!r} is not of type {name}.", key=key) from error
    except (RuntimeError, TypeError):  # pydantic has no schema for the type, or JSON no form of the value
        return


def _allows_none(hint: Any) -> bool:
    return hint in (Any, None, types.NoneType) or types.NoneType in typing.get_args(hint)
