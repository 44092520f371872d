"""Fields of a row, checked: a sentence, a score."""

from __future__ import annotations

import math
from pathlib import Path

from sts_lightning.errors import DataError


def sentence(text: str, path: Path, line: int) -> str:
    """The sentence with runs of white space folded into single blanks, as SentEval reads it.

    Raises:
        DataError: Nothing is left.
    """
    folded = " ".join(text.split())
    if not folded:
        raise DataError("a sentence is empty.", path, line)
    return folded


def score(text: str, score_range: tuple[float, float], path: Path, line: int) -> float:
    """A similarity score within ``score_range``.

    Raises:
        DataError: Not a number, NaN or infinite, or outside the range.
    """
    low, high = score_range
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(f"the score {text!r} is not a number.", path, line)
    if not low <= value <= high:
        raise DataError(f"the score {value:g} lies outside [{low:g}, {high:g}].", path, line)
    return value
