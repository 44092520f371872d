"""Parsing and validation of the fields of a row: sentences, scores and messages.

An error of a value has no place; `parse_rows` gives it the file and line.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any, TypeVar

from sts_lightning.core.errors import DataError, counted, line_or_row

T = TypeVar("T")
V = TypeVar("V")

INVISIBLE = {"Cc", "Cf", "Zl", "Zp", "Zs"}
"""Unicode's categories of control and format characters, such as a zero-width space, and of separators."""

SHOWN_LINES = 5
"""Lines with errors that a message lists, besides the first one."""

Range = tuple[float, float]
"""Lowest and highest score."""

_BROKEN = re.compile("[\0\ud800-\udfff]")
"""What no tokenizer takes, but JSON may hold: a NUL character, and half of a character."""

_NUMBER = re.compile(r"[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)([eE][+-]?[0-9]+)?")
"""A decimal number, with a point or a comma, as spreadsheets of many countries write it: 3,5."""

_WHOLE = re.compile(r"\s*[+-]?[0-9]+(\.0+)?\s*")
_POINT = re.compile(r"(?<=[0-9])\.0+$")
"""End of a whole number as pandas writes it in a column with gaps: 1.0."""


def parse_rows(
    source: object, rows: Iterable[tuple[int, V]], parse: Callable[[V], T], hint: str | None = None
) -> Iterator[tuple[int, T]]:
    """Yield the line and the parsed values of each row; those that cannot be parsed are reported together.

    Args:
        source: File or data set of the rows.
        rows: Lines and values.
        parse: Function from the values of a row, which raises a `DataError` without a place.
        hint: Suggested fix where no row can be parsed.

    Raises:
        DataError: Rows have errors: after the last row, so that one attempt finds them all.
    """
    wrong: list[tuple[int, DataError]] = []
    parsed = False
    for line, values in rows:
        try:
            row = parse(values)
        except DataError as error:
            wrong.append((line, error))
            continue
        parsed = True
        yield line, row
    if not wrong:
        return
    (line, first), *others = wrong
    message = str(first)
    if others:
        word, shown = line_or_row(str(source)), [str(line) for line, _ in others[:SHOWN_LINES]]
        more = f"{counted(len(others), 'more row')} with errors: {word}{'' if len(shown) == 1 else 's'}"
        end = ", ..." if len(others) > SHOWN_LINES else "."
        message = f"{message.removesuffix('.')}; and {more} {', '.join(shown)}{end}"
    raise DataError(message, str(source), line, hint=None if parsed else hint) from first


def text_of(value: Any, name: str, number: bool = False) -> str:
    """Return the text of a value; null becomes an empty text, which the check of the column rejects.

    Args:
        value: Value of a field.
        name: Name of its column, for errors.
        number: Whether it may be a number or, as a class, a truth value.

    Raises:
        DataError: The value is neither a string nor, if allowed, a number.
    """
    if value is None:
        return ""
    if number and isinstance(value, int | float | Decimal):
        return str(value)
    if not isinstance(value, str):
        wanted = "a string or a number" if number else "a string"
        raise DataError(f"{name!r} must be {wanted}, not {json.dumps(value, default=str)[:40]}.")
    if _BROKEN.search(value):
        raise DataError(f"{name!r} contains a NUL character or an unpaired surrogate.")
    return value


def sentence(text: str, what: str = "a sentence") -> str:
    """Return a sentence as it is, which has to have a visible character.

    Raises:
        DataError: The sentence is empty, or has no visible character.
    """
    if is_blank(text):
        problem = f"has no visible character ({ascii(text)[1:-1][:40]})" if text.split() else "is empty"
        raise DataError(f"{what} {problem}.")
    return text


def folded_sentence(text: str) -> str:
    """Return a sentence with its white space folded, as SentEval reads its files; see `sentence`."""
    return sentence(fold(text))


def fold(text: str) -> str:
    """Return a text with each run of white space, line breaks too, as one space, and none at the ends."""
    return " ".join(text.split())


def is_blank(text: str) -> bool:
    """Return whether a text has no visible character, only spaces, control characters and the like."""
    if text[:1].isalnum():  # nearly all, and many times as fast
        return False
    return all(unicodedata.category(character) in INVISIBLE for character in text)


def plain(value: Any, name: str) -> Any:
    """Return the text of messages, or the only one of a list of them; any other value as it is.

    The text has the messages of a user and an assistant, one a line, without a system's.

    Raises:
        DataError: A message has no text.
    """
    if isinstance(value, list) and len(value) == 1 and is_messages(value[0]):
        value = value[0]
    if not is_messages(value):
        return value
    texts = [message["content"] for message in value if message["role"] in ("user", "assistant")]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise DataError(f"{name!r} has no message of a user or assistant with a text.")
    return "\n".join(texts)


def is_messages(value: Any) -> bool:
    """Return whether a value is a conversation: a list of objects with a role and a content."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(part, dict) and {"role", "content"} <= part.keys() for part in value)
    )


def is_number(text: str) -> bool:
    """Return whether a text is a number, perhaps with a decimal comma."""
    return bool(_NUMBER.fullmatch(text.strip()))


def is_whole(text: str) -> bool:
    """Return whether a text is a whole number, perhaps with ``.0``."""
    return bool(_WHOLE.fullmatch(text))


def without_point(text: str) -> str:
    """Return a whole number without the ``.0`` that pandas writes in a column with gaps; other texts stay."""
    return _POINT.sub("", text)


def score(text: str, score_range: Range | None = None) -> float:
    """Parse a similarity score: a decimal number in ASCII, such as 4, -0.5, 3,5 or 1e-3, in white space.

    Args:
        text: The field.
        score_range: Lowest and highest allowed score; not checked if not given.

    Raises:
        DataError: The text is anything else, such as NaN or infinity, or lies outside the range.
    """
    number = text.strip(" \t\r")
    value = float(number.replace(",", ".")) if _NUMBER.fullmatch(number) else math.nan
    if not math.isfinite(value):
        shown = text if len(text) <= 40 else f"{text[:40]}..."
        raise DataError(f"the score {shown!r} is not a number.")
    low, high = score_range or (-math.inf, math.inf)
    if not low <= value <= high:
        raise DataError(f"the score {value:g} lies outside [{low:g}, {high:g}].")
    return value


def check_score_range(values: Sequence[float] | None) -> None:
    """Check a range of scores, which need not be given.

    Raises:
        ValueError: It is not two finite numbers in ascending order.
    """
    if values is not None and (len(values) != 2 or not -math.inf < values[0] < values[1] < math.inf):
        raise ValueError(f"score_range must be [low, high], finite, with low < high, got {list(values)}.")
