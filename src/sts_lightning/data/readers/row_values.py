"""Parsing and validation of the fields of a row: sentences and scores.

``path`` and ``line`` name the place in errors; without them, the caller does.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from sts_lightning.core.errors import DataError, counted, line_or_row

INVISIBLE = {"Cc", "Cf", "Zl", "Zp", "Zs"}
"""Unicode's categories of control and format characters, such as a zero-width space, and of separators."""

SHOWN_LINES = 5
"""Lines with errors that a message lists, besides the first one."""

Range = tuple[float, float]
"""Lowest and highest score."""

_BROKEN = re.compile("[\0\ud800-\udfff]")
"""What no tokenizer takes, but JSON may hold: a NUL character, and half of a character."""

_NUMBER = re.compile(r"\s*[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)([eE][+-]?[0-9]+)?\s*")
_WHOLE = re.compile(r"\s*[+-]?[0-9]+(\.0+)?\s*")
_POINT = re.compile(r"(?<=[0-9])\.0+$")
"""End of a whole number as pandas writes it in a column with gaps: 1.0."""

_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def text_of(
    value: Any, name: str, number: bool = False, path: Path | str | None = None, line: int | None = None
) -> str:
    """Return the text of a value; null becomes an empty text, which the check of the column rejects.

    Args:
        value: Value of a field.
        name: Name of its column, for errors.
        number: Whether it may be a number or, as a class, a truth value.
        path: Path of the file, for errors.
        line: Number of the line, for errors.

    Raises:
        DataError: The value is neither a string nor, if allowed, a number.
    """
    if value is None:
        return ""
    if number and isinstance(value, int | float | Decimal):
        return str(value)
    if not isinstance(value, str):
        wanted = "a string or a number" if number else "a string"
        raise DataError(f"{name!r} must be {wanted}, not {json.dumps(value, default=str)[:40]}.", path, line)
    if _BROKEN.search(value):
        raise DataError(f"{name!r} contains a NUL character or an unpaired surrogate.", path, line)
    return value


def sentence(
    text: str, path: Path | str | None = None, line: int | None = None, what: str = "a sentence"
) -> str:
    """Return a sentence as it is, which has to have a visible character.

    Args:
        text: The sentence.
        path: Path of the file, for errors.
        line: Number of the line, for errors.
        what: What it is, for errors.

    Raises:
        DataError: The sentence is empty, or has no visible character.
    """
    if is_blank(text):
        problem = f"has no visible character ({ascii(text)[1:-1][:40]})" if text.split() else "is empty"
        raise DataError(f"{what} {problem}.", path, line)
    return text


def plain(value: Any, name: str, path: Path | str | None = None, line: int | None = None) -> Any:
    """Return the text of messages, or the only one of a list of them; any other value as it is.

    Raises:
        DataError: A message has no text.
    """
    if isinstance(value, list) and len(value) == 1 and is_messages(value[0]):
        value = value[0]
    return message_text(value, name, path, line) if is_messages(value) else value


def is_messages(value: Any) -> bool:
    """Return whether a value is a conversation: a list of objects with a role and a content."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(part, dict) and {"role", "content"} <= part.keys() for part in value)
    )


def message_text(
    messages: Sequence[dict[str, Any]],
    name: str,
    path: Path | str | None = None,
    line: int | None = None,
) -> str:
    """Return the text of the messages of a user and an assistant, one a line, without a system's.

    Raises:
        DataError: A message has no text.
    """
    texts = [message["content"] for message in messages if message["role"] in ("user", "assistant")]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise DataError(f"{name!r} has no message of a user or assistant with a text.", path, line)
    return "\n".join(texts)


def folded_sentence(text: str, path: Path | str | None = None, line: int | None = None) -> str:
    """Return a sentence with its white space folded, as SentEval reads its files; see `sentence`."""
    return sentence(fold(text), path, line)


def fold(text: str) -> str:
    """Return a text with each run of white space, line breaks too, as one space, and none at the ends."""
    return " ".join(text.split())


class BadRows:
    """Errors of the rows of a file, which are reported together, so that one attempt finds them all.

    As a context around what parses a row, it keeps the row's error, and the next row can be read.
    """

    def __init__(self) -> None:
        self._first: DataError | None = None
        self._others: list[int | None] = []

    def __enter__(self) -> None:
        pass

    def __exit__(self, type_: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, DataError):
            return False
        if self._first is None:
            self._first = error
        else:
            self._others.append(error.line)
        return True

    def check(self, hint: str | None = None) -> None:
        """Raise the error of the first row, if there is one, with the number of the other rows.

        Args:
            hint: Suggested fix.

        Raises:
            DataError: There are rows with errors.
        """
        if self._first is None:
            return
        if self._others:
            lines = [str(line) for line in self._others[:SHOWN_LINES] if line is not None]
            word = "line" if self._first.path is None else line_or_row(self._first.path)
            where = f": {word}{'' if len(lines) == 1 else 's'} {', '.join(lines)}" if lines else ""
            more = f"{counted(len(self._others), 'more row')} with errors{where}"
            end = ", ..." if lines and len(self._others) > SHOWN_LINES else "."
            self._first.args = (f"{str(self._first).removesuffix('.')}; and {more}{end}",)
        if hint is not None:
            self._first.add_hint(hint)
        raise self._first


def is_number(text: str) -> bool:
    """Return whether a text is a number, perhaps with a decimal comma."""
    return bool(_NUMBER.fullmatch(text))


def is_whole(text: str) -> bool:
    """Return whether a text is a whole number, perhaps with ``.0``."""
    return bool(_WHOLE.fullmatch(text))


def without_point(text: str) -> str:
    """Return a whole number without the ``.0`` that pandas writes in a column with gaps; other texts stay."""
    return _POINT.sub("", text)


def is_blank(text: str) -> bool:
    """Return whether a text has no visible character, only spaces, control characters and the like."""
    return all(unicodedata.category(character) in INVISIBLE for character in text)


def score(
    text: str, score_range: Range | None, path: Path | str | None = None, line: int | None = None
) -> float:
    """Parse a similarity score: a decimal number in ASCII, such as 4, -0.5 or 1e-3, in white space.

    Args:
        text: The field.
        score_range: Lowest and highest allowed score; not checked if not given.
        path: Path of the file, for errors.
        line: Number of the line, for errors.

    Raises:
        DataError: The text is anything else, such as NaN or infinity, or lies outside the range.
    """
    value = float(text) if _DECIMAL.fullmatch(text.strip(" \t\r")) else math.nan
    if not math.isfinite(value):
        shown = text if len(text) <= 40 else f"{text[:40]}..."
        comma = "; write a decimal point" if _DECIMAL.fullmatch(text.strip().replace(",", ".", 1)) else ""
        raise DataError(f"the score {shown!r} is not a number{comma}.", path, line)
    low, high = score_range or (-math.inf, math.inf)
    if not low <= value <= high:
        raise DataError(f"the score {value:g} lies outside [{low:g}, {high:g}].", path, line)
    return value


def check_score_range(values: Sequence[float] | None) -> None:
    """Check a range of scores, which need not be given.

    Raises:
        ValueError: It is not two finite numbers in ascending order.
    """
    if values is not None and (len(values) != 2 or not -math.inf < values[0] < values[1] < math.inf):
        raise ValueError(f"score_range must be [low, high], finite, with low < high, got {list(values)}.")
