"""Fields of a row, checked: a sentence, a score."""

from __future__ import annotations

import math
import re
from pathlib import Path

from sts_lightning.errors import DataError

_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def sentence(text: str, path: Path, line: int) -> str:
    """The sentence with runs of white space folded into single blanks, as SentEval reads it.

    Raises:
        DataError: Nothing is left.
    """
    folded = " ".join(text.split())
    if not folded:
        raise DataError("a sentence is empty.", path, line)
    return folded


def number(text: str, path: Path, line: int) -> float:
    """A score as a decimal number in ASCII, such as 4, -0.5 or 1e-3; blanks around it are ignored.

    Raises:
        DataError: Anything else, which includes other scripts' digits, underscores, NaN and infinity.
    """
    value = float(text) if _DECIMAL.fullmatch(text.strip(" \t\r")) else math.nan
    if not math.isfinite(value):
        shown = text if len(text) <= 40 else f"{text[:40]}..."
        raise DataError(f"the score {shown!r} is not a number.", path, line)
    return value


def score(text: str, score_range: tuple[float, float], path: Path, line: int) -> float:
    """A similarity score within ``score_range``.

    Raises:
        DataError: Not a number, NaN or infinite, or outside the range.
    """
    low, high = score_range
    value = number(text, path, line)
    if not low <= value <= high:
        raise DataError(f"the score {value:g} lies outside [{low:g}, {high:g}].", path, line)
    return value
