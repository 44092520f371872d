"""Strict reading of JSON files.

Python's own parser takes ``NaN`` and ``1e999``, keeps the last of two values of one key, and stops with
errors of several kinds. Here each of these is a `ValueError` that names the place.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SURROGATE = re.compile("[\ud800-\udfff]")


def read_json(path: Path) -> Any:
    """Read a JSON file whose numbers are all finite.

    Args:
        path: The file, in UTF-8.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not valid JSON (see `parse_json`), a number does not fit into a float, or a text
            is not Unicode; the message names the line or the key.
    """
    text = path.read_text("utf-8-sig")
    if not text.strip():
        raise ValueError("the file is empty")
    found = parse_json(text)
    check_leaves(found)
    return found


def check_leaves(values: Any) -> None:
    """Check the names, texts and numbers in nested dictionaries and lists, as they are read or to be written.

    Args:
        values: Dictionary, list, text, number, bool or None.

    Raises:
        ValueError: A number does not fit into a float, or a text is not Unicode; the message names its key.
    """
    for key, value in _leaves(values):
        _check_leaf(key, value)


def parse_json(text: str) -> Any:
    """Parse JSON in which no object has a key twice.

    Args:
        text: JSON, in which Python's ``NaN`` and ``Infinity`` are taken as well.

    Raises:
        ValueError: It is not valid JSON, is nested too deeply, or has a key twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_distinct_keys)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build the dictionary of a JSON object, and reject duplicate keys."""
    record = dict(pairs)
    if len(record) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} occurs twice")
    return record


def _leaves(values: Any) -> Iterator[tuple[str, Any]]:
    """Yield each name, text and number with its dotted key; not by recursion, which nesting would exhaust."""
    waiting = [("", values)]
    while waiting:
        key, node = waiting.pop()
        if isinstance(node, dict):
            yield from ((key, name) for name in node)
            waiting += [(f"{key}.{name}" if key else name, value) for name, value in node.items()]
        elif isinstance(node, list):
            waiting += [(f"{key}.{index}" if key else str(index), value) for index, value in enumerate(node)]
        else:
            yield key, node


def _check_leaf(key: str, value: Any) -> None:
    place = key.encode("utf-8", "backslashreplace").decode() or "the content"
    if isinstance(value, str) and not value.isascii() and SURROGATE.search(value):
        raise ValueError(f"{place} has an unpaired surrogate, {value[:40]!a}")
    if isinstance(value, int | float):
        try:
            number = float(value)
        except OverflowError:
            raise ValueError(f"{place} is a whole number of {len(str(abs(value)))} digits") from None
        if not math.isfinite(number):
            raise ValueError(f"{place} is {number}")
