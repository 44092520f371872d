"""Values of JSON files as declared types, nothing converted silently: ``"3"`` and ``true`` are no numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

NAMES: dict[Any, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
    NoneType: "null",
}
"""Types in messages."""


def as_type(value: Any, kind: Any, key: str = "") -> Any:
    """Return a JSON value as a type; a whole number is a float where one is wanted, nothing else changes.

    Args:
        value: Value from `read_json`.
        kind: str, int, float, bool, None or Any; ``Annotated[float, low, high]`` for a number within bounds;
            a list, tuple, mapping or union of types; a dataclass, whose fields must all be there and no
            others; or a TypedDict, which may have further keys.
        key: Dotted key of the value, for messages.

    Raises:
        ValueError: The value has another type; the message begins with its key.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Required, NotRequired):
        return as_type(value, inner[0], key)
    if origin is Annotated:
        return _bounded(as_type(value, inner[0], key), inner[1], inner[2], key)
    if origin in (Union, UnionType):
        return _one_of(value, inner, key)
    if is_dataclass(kind) and isinstance(kind, type):
        return kind(**_entries(value, kind, key, {field.name for field in fields(kind)}, closed=True))
    if is_typeddict(kind):
        hints = get_type_hints(kind, include_extras=True)
        needed = {name for name, hint in hints.items() if _is_needed(hint, kind.__total__)}
        return {**_plain(value, dict, key), **_entries(value, kind, key, needed)}
    if origin is tuple:
        return _tuple(value, inner, key)
    if origin is list:
        return [
            as_type(item, inner[0], _join(key, index)) for index, item in enumerate(_plain(value, list, key))
        ]
    if origin in (dict, Mapping):
        return {
            name: as_type(item, inner[1], _join(key, name)) for name, item in _plain(value, dict, key).items()
        }
    return _plain(value, kind, key)


def _is_needed(hint: Any, total: bool) -> bool:
    return get_origin(hint) is Required or (total and get_origin(hint) is not NotRequired)


def _entries(value: Any, kind: Any, key: str, needed: set[str], closed: bool = False) -> dict[str, Any]:
    """Return the declared entries of an object as their types.

    Args:
        value: The object.
        kind: Class that declares the type of each entry.
        key: Dotted key of the object.
        needed: Entries that must be there.
        closed: Whether there may be no others.
    """
    hints = get_type_hints(kind, include_extras=True)
    found = _plain(value, dict, key)
    missing = sorted(needed - found.keys())
    if missing:
        raise ValueError(f"{_place(key)} lacks {', '.join(missing)}")
    unknown = sorted(found.keys() - hints.keys())
    if closed and unknown:
        raise ValueError(f"{_join(key, unknown[0])} is unknown")
    return {
        name: as_type(found[name], hint, _join(key, name)) for name, hint in hints.items() if name in found
    }


def _one_of(value: Any, kinds: tuple[Any, ...], key: str) -> Any:
    if value is None and NoneType in kinds:
        return None
    others = [kind for kind in kinds if kind is not NoneType]
    if len(others) == 1:
        return as_type(value, others[0], key)
    for kind in others:
        try:
            return as_type(value, kind, key)
        except ValueError:
            continue
    names = " or ".join(NAMES[kind] for kind in kinds)
    raise ValueError(f"{_place(key)} must be {names}, got {_shown(value)}")


def _tuple(value: Any, kinds: tuple[Any, ...], key: str) -> tuple[Any, ...]:
    items = _plain(value, list, key)
    if kinds[-1] is ...:
        kinds = (kinds[0],) * len(items)
    if len(items) != len(kinds):
        raise ValueError(f"{_place(key)} must have {len(kinds)} items, got {len(items)}")
    pairs = enumerate(zip(items, kinds, strict=True))
    return tuple(as_type(item, kind, _join(key, index)) for index, (item, kind) in pairs)


def _bounded(value: Any, low: float, high: float, key: str) -> Any:
    if not low <= value <= high:
        raise ValueError(f"{_place(key)} must lie between {low:g} and {high:g}, got {_shown(value)}")
    return value


def _plain(value: Any, kind: Any, key: str) -> Any:
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise ValueError(f"{_place(key)} must be {NAMES[kind]}, got {_shown(value)}")
    return value


def _place(key: str) -> str:
    return key or "the content"


def _join(key: str, name: str | int) -> str:
    return f"{key}.{name}" if key else str(name)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
