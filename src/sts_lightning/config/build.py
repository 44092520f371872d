"""Objects of a configuration."""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any

from hydra.errors import HydraException
from hydra.utils import get_method
from omegaconf import DictConfig, ListConfig, OmegaConf

from sts_lightning.core.errors import ConfigError, UserError

TOP_LEVEL = {"root": "data_root", "path": "path", "dev": "dev", "senteval_text": "senteval_text"}
"""Arguments of data sets that are settings of the top level, and the names of these."""


LOADING: dict[str, Any] = {"batch_size": int, "seed": int, "num_workers": int}
"""Settings of the group ``data`` for any data set: arguments of the DataModule, with their types."""


def top_level_settings(cfg: DictConfig) -> dict[str, Any]:
    """Return the settings of the top level that a data set may take, by the names of its arguments."""
    return {argument: to_container(cfg[key]) for argument, key in TOP_LEVEL.items()}


def to_container(value: Any) -> Any:
    """Return a value of a configuration as a plain container, its interpolations resolved."""
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


def argument_types(target: Callable[..., Any]) -> dict[str, Any]:
    """Return the arguments of a class or function with their types.

    They include the fields of dataclasses that `takes_settings` declares, and of an unpacked `TypedDict`.
    """
    function = target.__init__ if inspect.isclass(target) else target
    hints = _hints(function)
    types_: dict[str, Any] = {}
    for name, parameter in inspect.signature(target).parameters.items():
        hint = hints.get(name, Any)
        if parameter.kind is not parameter.VAR_KEYWORD:
            types_[name] = hint
        elif typing.get_origin(hint) is typing.Unpack:
            settings = typing.get_args(hint)[0]
            types_ |= dict.fromkeys(settings.__annotations__, Any) | _hints(settings)
        elif (declared := getattr(function, "further_settings", None)) is not None:
            of, optional = declared
            for cls in of:
                type_of = typing.get_type_hints(cls)
                names = [
                    each.name
                    for each in dataclasses.fields(cls)
                    if each.metadata.get("group") != "evaluation"
                ]
                types_ |= {name: type_of[name] | None if optional else type_of[name] for name in names}
        else:
            types_[name] = hint
    return types_


def _hints(annotated: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a function or `TypedDict`, but for those that cannot be resolved."""
    scope = getattr(inspect.unwrap(annotated), "__globals__", {})
    hints: dict[str, Any] = {}
    for name, annotation in getattr(annotated, "__annotations__", {}).items():
        with suppress(NameError):
            hints |= typing.get_type_hints(types.SimpleNamespace(__annotations__={name: annotation}), scope)
    return hints


def arguments_of(target: object) -> dict[str, Any] | None:
    """Return the arguments of what a node builds; None if it cannot be imported, or they cannot be told."""
    try:
        return argument_types(get_method(str(target)))
    except (HydraException, ImportError, TypeError, ValueError):
        return None


def build(
    path: str,
    node: DictConfig,
    cls: type,
    derived: Mapping[str, Any] = MappingProxyType({}),
    **arguments: Any,
) -> Any:
    """Instantiate a node, nested nodes first; an error of a constructor names the setting by its full path.

    Args:
        path: Key of the node in the configuration, for messages.
        node: Configuration with a ``_target_``.
        cls: Class that the node must make; ``object`` for any.
        derived: Values that no setting decides, such as the size of the embeddings. The constructors of the
            node and of nested nodes receive those that they name as arguments.
        **arguments: Further arguments, which take precedence over those of the node.

    Raises:
        ConfigError: A constructor raised an error that is not the user's already, or the object is of another
            class than ``cls``.
    """
    with name_setting(path, node):
        try:
            target = get_method(node["_target_"])
            taken = derived.keys() & argument_types(target).keys() if derived else ()
            of_node = {key: value for key, value in items(node) if key not in ("_target_", *arguments)}
            given = {key: _build_nested(f"{path}.{key}", value, derived) for key, value in of_node.items()}
            built = target(**given, **{name: derived[name] for name in taken}, **arguments)
        except (UserError, ValueError, ImportError):
            raise
        except Exception as error:  # a constructor may raise anything, such as MemoryError for a size
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise ConfigError(f"{path} cannot be built ({reason}).", key=path) from error
    if not isinstance(built, cls):
        raise ConfigError(
            f"{path}._target_ makes an object of the class {type(built).__name__}, not a {cls.__name__}.",
            key=f"{path}._target_",
        )
    return built


def _build_nested(path: str, value: Any, derived: Mapping[str, Any]) -> Any:
    """Build every node with a ``_target_`` in a value; the rest of it becomes plain."""
    if not contains_target(value):
        return to_container(value)
    if isinstance(value, ListConfig):
        return [_build_nested(f"{path}.{i}", item, derived) for i, item in enumerate(value)]
    if "_target_" in value:
        return build(path, value, object, derived)
    return {key: _build_nested(f"{path}.{key}", item, derived) for key, item in items(value)}


def items(node: DictConfig) -> Iterator[tuple[str, Any]]:
    """Yield keys and values; OmegaConf's own keys need not be text."""
    for key, value in node.items():
        yield str(key), value


def contains_target(value: Any) -> bool:
    """Return whether a value is or holds a node that builds something."""
    if isinstance(value, DictConfig):
        return "_target_" in value or any(contains_target(item) for item in value.values())
    return isinstance(value, ListConfig) and any(map(contains_target, value))


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
        first = re.match(r"\w+", str(error))
        argument = "" if first is None else first[0]
        if path.startswith("data") and argument in TOP_LEVEL and argument not in settings:
            raise ConfigError(str(error), key=TOP_LEVEL[argument]) from error
        if argument in settings:
            raise ConfigError(f"{path}.{error}", key=f"{path}.{argument}") from error
        raise ConfigError(f"{path}: {error}", key=path) from error
