"""Usual names of columns by their role, and those of a file that are near the ones that are wanted."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

import yaml

_USUAL: dict[str, list[str]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))

ANCHORS, POSITIVES, NEGATIVES = (_USUAL[role] for role in ("anchors", "positives", "negatives"))
SCORES, CLASSES, ASIDE = (_USUAL[role] for role in ("scores", "classes", "aside"))


def folded(name: str) -> str:
    """Return a name in lower case, with underscores for spaces and hyphens."""
    return re.sub(r"[\s-]+", "_", name.strip(" \ufeff").lower())


def is_negative(name: str) -> bool:
    """Return whether a name is a usual one of hard negatives: ``negative``, ``negative_2``, ``neg3``."""
    return re.sub(r"_?[0-9]+$", "", folded(name)) in NEGATIVES


def is_aside(name: str) -> bool:
    """Return whether a name is a usual one of what is no text of a row, such as an id."""
    text = folded(name)
    return (
        text in ASIDE
        or text.endswith(("_id", "_ids", "_images", "_videos"))
        or text.startswith(("unnamed:", "__index_level_"))
    )


def missing_columns(
    missing: Sequence[str],
    wanted: Sequence[str],
    names: Collection[str],
    numbers: Collection[str],
    setting: str | None,
    otherwise: str = "",
) -> tuple[str, str | None]:
    """Return the message that columns are missing, and its hint.

    Args:
        missing: Names that are wanted and missing.
        wanted: All names that are wanted, see `near_columns`.
        names: Names of the file.
        numbers: Those that hold numbers or classes.
        setting: What the user names the columns with; None if the names are fixed.
        otherwise: End of the hint where the file has no near columns.
    """
    near = "" if setting is None else near_columns(wanted, names, numbers, setting)
    give = "" if setting is None else f"Give the names of the columns with {setting}."
    message = f"no column named {', '.join(map(repr, missing))}; there are {listed(names)}."
    return message, f"{give} {near or otherwise}".strip() or None


def listed(names: Collection[str]) -> str:
    """Return names for a message, of a line that may be anything."""
    text = ", ".join(map(repr, names))
    return text if len(text) <= 300 else f"{text[:297]}..."


def near_columns(
    wanted: Sequence[str], names: Collection[str], numbers: Collection[str], setting: str
) -> str:
    """Return the columns of a file that are near those that are wanted, as a sentence with what to type.

    Args:
        wanted: Names that are wanted: of the first text, the second, and numbers or hard negatives.
        names: Names of the file.
        numbers: Those that hold numbers or classes.
        setting: What the user names the columns with, such as ``data.columns``.

    Returns:
        The sentence, empty where the file has none near the first two or the numbers. Hard negatives
        without a near one are left out.
    """
    found: list[str] = []
    for position, column in enumerate(wanted):
        free = [name for name in names if name not in found and (name == column or name not in wanted)]
        near = column if column in free else _near(column, free, position, column in numbers)
        if near is not None:
            found.append(near)
        elif position < 2 or column in numbers:
            return ""
    if not found or found == list(wanted):
        return ""
    return f"Near are: {typed_columns(found, setting)}."


def typed_columns(names: Sequence[str], setting: str) -> str:
    """Return what to type for these columns, as a shell takes it."""
    if setting.startswith("--"):
        return f"{setting} {shlex.join(names)}"
    if setting.startswith("data."):
        listed = [name if re.fullmatch(r"\w+", name) else f'"{name}"' for name in names]
        return f"'{setting.partition(',')[0]}=[{','.join(listed)}]'"
    keys = re.split(", | and ", setting)
    return shlex.join(f"{key}={name}" for key, name in zip(keys, names, strict=False))


def _near(column: str, names: Sequence[str], position: int, number: bool) -> str | None:
    by_fold = {folded(name): name for name in reversed(names)}
    if folded(column) in by_fold:
        return by_fold[folded(column)]
    if number:
        usual: Sequence[str] = (*SCORES, *CLASSES)
    elif position > 1:
        usual = [text for text in by_fold if is_negative(text)]
    else:
        usual = POSITIVES if position else ANCHORS
    for text in usual:
        if text in by_fold:
            return by_fold[text]
    close = difflib.get_close_matches(folded(column), list(by_fold), n=1, cutoff=0.8)
    return by_fold[close[0]] if close else None
