"""The files of training examples: one, several or patterns, each with a weight."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from sts_lightning.errors import DataError
from sts_lightning.files import last_name

Files = str | list[str] | dict[str, float]
"""A path, several paths, or paths with their weights; each may be a pattern such as ``parts/*.csv``."""

HEAVIEST = 1000.0
"""Greatest weight of a file."""

SHOWN = 3
"""Names that a message lists before it counts the rest."""


def weighted(path: Files) -> dict[str, float]:
    """Return paths and patterns with their weights; a weight that is not given is 1.

    Args:
        path: Value of a setting.

    Raises:
        ValueError: The value has another form, is empty, or a weight is out of range.
    """
    listed: Sequence[object] = list(path) if isinstance(path, list | dict) else [path]
    if not listed or not all(isinstance(item, str) and item.strip() for item in listed):
        raise ValueError(
            f"path must be a path, a list of paths or a mapping from paths to weights, got {path!r}."
        )
    weights: Mapping[str, object] = path if isinstance(path, dict) else dict.fromkeys(map(str, listed), 1.0)
    if len(weights) < len(listed):
        raise ValueError(
            "path names a file more than once; {FILE: 2} takes each of its rows twice in an epoch."
        )
    for item, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= HEAVIEST:
            raise ValueError(
                f"path: the weight of {item} must be a number above 0 and at most {HEAVIEST:g}, "
                f"got {weight!r}."
            )
    return {item: float(str(weight)) for item, weight in weights.items()}


def find_files(weights: Mapping[str, float]) -> dict[str, float]:
    """Return the files with their weights: those of a pattern in alphabetical order.

    Raises:
        DataError: A pattern matches no file, a file is found more than once, under whatever spelling of its
            path, or its name is not valid UTF-8, which no record could hold.
    """
    found: dict[str, float] = {}
    places: set[str] = set()
    for item, weight in weights.items():
        paths = [item]
        if glob.has_magic(item) and not Path(item).exists():
            matches = glob.glob(item, recursive=True)  # noqa: PTH207  # Path.glob takes no absolute pattern
            paths = sorted(path for path in matches if Path(path).is_file())
        if not paths:
            raise DataError(f"no file matches {item}.", key="data.path")
        for path in paths:
            if any("\ud800" <= letter <= "\udfff" for letter in path):
                raise DataError(
                    "has a name that is not valid UTF-8.", ascii(path), key="data.path", hint="Rename it."
                )
            if os.path.realpath(path) in places:
                raise DataError(
                    "is found more than once.", path, key="data.path", hint="Let only one pattern match it."
                )
            places.add(os.path.realpath(path))
        found |= dict.fromkeys(paths, weight)
    return found


def only_file(path: Files | None) -> str | None:
    """Return the name of a single file without its folder, an empty text for several, None for none."""
    if path is None:
        return None
    weights = weighted(path)
    return Path(next(iter(weights))).name if list(weights.values()) == [1.0] else ""


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """Return names of files for records: the last part of a path, or all of it where that is not unique."""
    last = {path: last_name(path) for path in paths}
    shared = Counter(last.values())
    return {path: name if shared[name] == 1 else path for path, name in last.items()}


def summary(names: Sequence[str], mark: str = ", ") -> str:
    """Join names, all but the first few of which are only counted."""
    more = len(names) - SHOWN
    return mark.join(names if more <= 1 else [*names[:SHOWN], f"{more:,} more"])
