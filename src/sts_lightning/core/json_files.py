"""Strict reading of JSON files: no key twice, no number that is not finite, values of declared types."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any


def read_json(path: Path, kind: Any = Any) -> Any:
    """Read a JSON file.

    Args:
        path: The file, in UTF-8.
        kind: Type of its content, see `as_type`.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not valid JSON (see `parse_json`), has a number that is not finite, or another
            content; the message names the line or the key.
    """
    text = path.read_text("utf-8-sig")
    if not text.strip():
        raise ValueError("the file is empty")
    found = parse_json(text)
    check_finite(found)
    return as_type(found, kind)


def parse_json(text: str) -> Any:
    """Parse JSON in which no object has a key twice; Python's ``NaN`` and ``Infinity`` are taken.

    Raises:
        ValueError: It is not valid JSON, is nested too deeply, or has a key twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_distinct_keys)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} occurs twice")
    return record


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


def as_type(value: Any, kind: Any) -> Any:
    """Return a JSON value as a type; nothing is converted but whole numbers to floats and lists to tuples.

    Args:
        value: Value from `parse_json`.
        kind: Type as pydantic understands it: plain types, dataclasses, TypedDicts, bounds of numbers by
            `annotated_types`.

    Raises:
        ValueError: The value has another type; the message begins with the key.
    """
    if kind is Any:
        return value
    from pydantic import ValidationError  # a command that refuses a typo does not wait for it

    try:
        return _adapter(kind).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])) or "the content"
        raise ValueError(f"{key}: {first['msg']}, got {str(first['input'])[:60]}") from None


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
