"""Strict reading of JSON files: keys occur once, numbers are finite, values have their declared types."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any


def read_json(path: Path, type_: Any = Any) -> Any:
    """Read a JSON file whose content has a type; see `as_type`.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not valid JSON (see `parse_json`), has a number that is not finite, or has another
            content; the message names the line or the key.
    """
    text = path.read_text("utf-8-sig")  # Windows editors begin a file with a byte order mark
    if not text.strip():
        raise ValueError("the file is empty")
    content = parse_json(text)
    check_finite(content)
    return as_type(content, type_)


def parse_json(text: str) -> Any:
    """Parse JSON in which no object has a key twice; ``NaN`` and ``Infinity`` are allowed, as in Python.

    Raises:
        ValueError: It is not valid JSON, is nested too deeply, or has a key twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_distinct_keys)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} occurs twice")
    return values


def check_finite(values: Any, key: str = "") -> None:
    """Reject NaN, infinity and whole numbers beyond a float in nested dictionaries and lists.

    Raises:
        ValueError: The message names the key.
    """
    if isinstance(values, dict | list):
        for name, value in values.items() if isinstance(values, dict) else enumerate(values):
            check_finite(value, f"{key}.{name}" if key else str(name))
    elif isinstance(values, int | float) and not abs(values) <= sys.float_info.max:
        raise ValueError(f"{key or 'the content'} is {str(values)[:40]}, which is no finite number")


def as_type(value: Any, type_: Any) -> Any:
    """Return a JSON value as a type; only whole numbers are converted, to floats, and lists, to tuples.

    Args:
        value: Value from `parse_json`.
        type_: A type that pydantic reads: a plain type, a dataclass, a TypedDict, a number with bounds of
            `annotated_types`.

    Raises:
        ValueError: The value has another type; the message begins with the key.
    """
    if type_ is Any:
        return value
    from pydantic import ValidationError  # imported late: a command that rejects a typo needs none of it

    try:
        # From JSON, since strict mode rejects a list for a tuple among Python's values.
        return _adapter(type_).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])) or "the content"
        raise ValueError(f"{key}: {first['msg']}, got {str(first['input'])[:60]}") from None


@cache  # an adapter builds its validator anew
def _adapter(type_: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(type_)
