"""Parsing and validation of the fields of a row: sentences and scores."""

from __future__ import annotations

import math
import re
from pathlib import Path

from sts_lightning.errors import DataError

_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def sentence(text: str, path: Path, line: int) -> str:
    """Return the sentence with runs of whitespace collapsed into single spaces, as SentEval reads it.

    Raises:
        DataError: The sentence is empty.
    """
    folded = " ".join(text.split())
    if not folded:
        raise DataError("a sentence is empty.", path, line)
    return folded


def number(text: str, path: Path, line: int) -> float:
    """Parse a decimal number in ASCII, such as 4, -0.5 or 1e-3; surrounding whitespace is ignored.

    Raises:
        DataError: The text is anything else, such as non-ASCII digits, underscores, NaN or infinity.
    """
    value = float(text) if _DECIMAL.fullmatch(text.strip(" \t\r")) else math.nan
    if not math.isfinite(value):
        shown = text if len(text) <= 40 else f"{text[:40]}..."
        raise DataError(f"the score {shown!r} is not a number.", path, line)
    return value


def score(text: str, score_range: tuple[float, float], path: Path, line: int) -> float:
    """Parse a similarity score within ``score_range``.

    Raises:
        DataError: The text is not a finite number, or lies outside the range.
    """
    low, high = score_range
    value = number(text, path, line)
    if not low <= value <= high:
        raise DataError(f"the score {value:g} lies outside [{low:g}, {high:g}].", path, line)
    return value
