"""Checks of a composed configuration, and objects built from it."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import math
import types
import typing
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import get_method, instantiate
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.errors import ConfigError, UserError


def check_config(cfg: DictConfig) -> None:
    """Check required values, numbers, choices, and each group that has a ``_target_`` against its signature.

    Raises:
        ConfigError: A value is missing, of the wrong type, out of range, NaN or infinite, or not among the
            choices.
    """
    missing = sorted(OmegaConf.missing_keys(cfg))
    if missing:
        raise ConfigError(f"{missing[0]} is required; give it on the command line: {missing[0]}=...")
    try:
        OmegaConf.resolve(cfg)
    except OmegaConfBaseException as error:
        raise ConfigError(f"{error.full_key}: {str(error).splitlines()[0]}") from error
    _check_finite(cfg, "")
    _check_fields(cfg, "")
    for key, node in _items(cfg):
        if isinstance(node, DictConfig) and "_target_" in node:
            check_target(key, node)


def _check_finite(node: DictConfig | ListConfig, prefix: str) -> None:
    """Reject NaN and infinity in any setting; no setting has a meaning for either."""
    pairs = _items(node) if isinstance(node, DictConfig) else ((str(i), v) for i, v in enumerate(node))
    for key, value in pairs:
        if isinstance(value, DictConfig | ListConfig):
            _check_finite(value, f"{prefix}{key}.")
        elif isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{prefix}{key}={value} is not a finite number.")


def _check_fields(node: DictConfig, prefix: str) -> None:
    """Check what the schema says besides the type: choices, range, and the length of a tuple."""
    schema = OmegaConf.get_type(node)
    fields = {f.name: f for f in dataclasses.fields(schema)} if dataclasses.is_dataclass(schema) else {}
    hints = typing.get_type_hints(schema) if fields else {}
    for key, value in _items(node):
        if key in fields:
            choices, bounds = (fields[key].metadata.get(name) for name in ("choices", "range"))
            if choices is not None and value not in choices:
                raise ConfigError(f"{prefix}{key}={value} is not among {', '.join(map(str, choices))}.")
            if bounds is not None and not bounds[0] <= value <= bounds[1]:
                raise ConfigError(f"{prefix}{key}={value} must lie between {bounds[0]} and {bounds[1]}.")
            _check_length(f"{prefix}{key}", value, hints[key])
        if isinstance(value, DictConfig):
            _check_fields(value, f"{prefix}{key}.")


def check_target(path: str, node: DictConfig) -> None:
    """Check the keys and the types of values of a node against the signature of its ``_target_``.

    Raises:
        ConfigError: The target does not exist, a key is not one of its arguments, or a value does not fit.
    """
    try:
        target = get_method(node["_target_"])
    except Exception as error:  # whatever an import may raise
        reason = " ".join(str(error).split())
        raise ConfigError(f"{path}._target_: cannot load {node['_target_']} ({reason}).") from error
    try:
        hints = _argument_types(target)
    except (TypeError, ValueError) as error:  # what has no signature, such as builtins.dict
        raise ConfigError(
            f"{path}._target_: {node['_target_']} has no arguments that can be checked; name a class or "
            "function with a signature."
        ) from error
    for key, value in _items(node):
        if key == "_target_":
            continue
        if key not in hints:
            raise ConfigError(f"{path}.{key}: no such setting.{suggest(key, hints)}")
        if isinstance(value, DictConfig) and "_target_" in value:
            check_target(f"{path}.{key}", value)
            continue
        _check_type(f"{path}.{key}", value, hints[key])
        if isinstance(value, DictConfig):
            for name, nested in _items(value):
                if isinstance(nested, DictConfig) and "_target_" in nested:
                    check_target(f"{path}.{key}.{name}", nested)


def _items(node: DictConfig) -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        yield str(key), value


def _argument_types(target: Callable[..., Any]) -> dict[str, Any]:
    function = target.__init__ if inspect.isclass(target) else target
    try:
        hints = typing.get_type_hints(function)
    except NameError:  # a library's annotation that cannot be resolved: its names are still known
        hints = {}
    types_: dict[str, Any] = {}
    for name, parameter in inspect.signature(target).parameters.items():
        if name in ("self", "cls"):
            continue
        hint = hints.get(name, Any)
        if parameter.kind is parameter.VAR_KEYWORD and typing.get_origin(hint) is typing.Unpack:
            types_ |= typing.get_type_hints(typing.get_args(hint)[0])
        else:
            types_[name] = hint
    return types_


def _check_type(key: str, value: Any, hint: Any) -> None:
    """Types as `OmegaConf` converts them, and literals; other hints are the target's own affair."""
    if typing.get_origin(hint) is typing.Literal:
        if value not in typing.get_args(hint):
            raise ConfigError(f"{key}={value} is not among {', '.join(map(str, typing.get_args(hint)))}.")
        return
    if value is None and not _allows_none(hint):
        raise ConfigError(f"{key} is required; give it on the command line: {key}=...")
    _check_length(key, value, hint)
    schema = dataclasses.make_dataclass("Schema", [("value", hint)])
    try:
        wanted = OmegaConf.structured(schema)
    except OmegaConfBaseException:
        return
    name = hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
    try:
        merged: Any = OmegaConf.merge(wanted, {"value": value})
    except OmegaConfBaseException as error:
        raise ConfigError(f"{key}={value!r} is not of type {name}.") from error
    # The target gets the value as it is: the text 'no' would be true there, and the text '0.1' no number.
    if _kinds(value) != _kinds(merged["value"]):
        raise ConfigError(f"{key}={value!r} is not of type {name}.")


def _check_length(key: str, value: Any, hint: Any) -> None:
    """Reject a list of another length than that of the tuple which it stands for."""
    for option in (hint, *typing.get_args(hint)):
        arguments = typing.get_args(option)
        if typing.get_origin(option) is tuple and ... not in arguments and isinstance(value, ListConfig):
            if len(value) != len(arguments):
                raise ConfigError(f"{key}={value} needs {len(arguments)} values, got {len(value)}.")
            return


def _kinds(value: Any) -> Any:
    """Whether a value, or each value of a list, is a text, a truth value or something else."""
    if isinstance(value, ListConfig):
        return [_kinds(item) for item in value]
    return next((kind for kind in (str, bool) if isinstance(value, kind)), None)


def _allows_none(hint: Any) -> bool:
    return hint in (Any, None, types.NoneType) or types.NoneType in typing.get_args(hint)


def suggest(key: str, known: Iterable[str]) -> str:
    """`` Did you mean ...?``, or the known keys if none is similar."""
    known = list(known)
    close = difflib.get_close_matches(key, known, n=3)
    # A key is often right but for the group it stands in: max_steps for trainer.max_steps.
    close += [
        name for name in known if name.rpartition(".")[2] == key.rpartition(".")[2] and name not in close
    ]
    if close:
        return f" Did you mean {' or '.join(close)}?"
    return f" There are: {', '.join(known)}." if len(known) <= 20 else ""


def flat_keys(cfg: DictConfig, prefix: str = "") -> list[str]:
    """All keys of a configuration in dotted form."""
    keys = []
    for key in map(str, cfg):
        if key == "_target_":
            continue
        keys.append(f"{prefix}{key}")
        node = cfg._get_node(key)
        if isinstance(node, DictConfig) and not node._is_missing() and not node._is_none():
            keys += flat_keys(node, f"{prefix}{key}.")
    return keys


def stage_overrides(overrides: Iterable[str], experiment: str) -> list[str]:
    """The command line of one stage of a run: its experiment, and what all stages were told."""
    own = ("experiment=", "stages.", "name=")
    return [
        f"experiment={experiment}",
        *(text for text in overrides if not text.lstrip("+~").startswith(own)),
    ]


def build(path: str, node: DictConfig, **arguments: Any) -> Any:
    """Instantiate a node, nested nodes first; an error of a constructor names the setting by its full path.

    Args:
        path: Key of the node in the configuration, for messages.
        node: Configuration with a ``_target_``.
        **arguments: Further arguments, which take precedence over those of the node.

    Raises:
        ConfigError: A constructor raised `ValueError` or `ImportError`.
    """
    nested = {
        key: _build_nested(f"{path}.{key}", value)
        for key, value in _items(node)
        if key not in arguments and _contains_target(value)
    }
    with name_setting(path, node):
        try:
            return instantiate(node, _convert_="all", **nested, **arguments)
        except InstantiationException as error:
            cause = error.__cause__
            if isinstance(cause, UserError | ValueError | ImportError):
                raise cause from None
            raise


def _build_nested(path: str, value: Any) -> Any:
    """Build every node with a ``_target_`` in a value; other values are returned as they are."""
    if isinstance(value, DictConfig):
        if "_target_" in value:
            return build(path, value)
        return {key: _build_nested(f"{path}.{key}", item) for key, item in _items(value)}
    if isinstance(value, ListConfig):
        return [_build_nested(f"{path}.{i}", item) for i, item in enumerate(value)]
    return value


def _contains_target(value: Any) -> bool:
    if isinstance(value, DictConfig):
        return "_target_" in value or any(_contains_target(item) for _, item in _items(value))
    return isinstance(value, ListConfig) and any(map(_contains_target, value))


@contextmanager
def name_setting(path: str, settings: Container[str]) -> Iterator[None]:
    """Turn an error in terms of a class's own arguments into a `ConfigError` that names the setting.

    Args:
        path: Key of the class in the configuration.
        settings: Names of its arguments; a message that begins with one of them continues the path.
    """
    try:
        yield
    except (ValueError, ImportError) as error:
        mark = "." if str(error).partition(" ")[0].rstrip(",") in settings else ": "
        raise ConfigError(f"{path}{mark}{error}") from error
