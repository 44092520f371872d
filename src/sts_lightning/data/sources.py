"""Where training rows are read from: files with weights, files below the data root, or a split of the hub."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sts_lightning.core.errors import DataError, at_setting
from sts_lightning.core.files import last_name
from sts_lightning.data.fetch import fetch_hint
from sts_lightning.data.readers.tables import Input
from sts_lightning.data.table import Table, concatenate

if TYPE_CHECKING:
    from sts_lightning.data.readers.hub import HubTable

Files = str | list[str] | dict[str, float]
"""A path, several paths, or paths with their weights; each may be a pattern such as ``parts/*.csv``."""

HEAVIEST = 1000.0
"""Greatest weight of a file."""


def weighted(path: Files) -> dict[str, float]:
    """Return paths and patterns with their weights; a weight that is not given is 1.

    Args:
        path: Value of a setting.

    Raises:
        ValueError: The value has another form, is empty, or a weight is out of range.
    """
    wrong = (
        "path must be a path, a list of paths or a mapping from paths to weights above 0 and at most "
        f"{HEAVIEST:g}, got {path!r}."
    )
    if not isinstance(path, str | list | dict):
        raise ValueError(wrong)
    listed = [path] if isinstance(path, str) else list(path)
    weights = path if isinstance(path, dict) else dict.fromkeys(listed, 1.0)
    if len(weights) < len(listed):
        raise ValueError(
            "path names a file more than once; {FILE: 2} takes each of its rows twice in an epoch."
        )
    valid = all(
        item.strip() and isinstance(weight, int | float) and 0 < weight <= HEAVIEST
        for item, weight in weights.items()
    )
    if not weights or not valid:
        raise ValueError(wrong)
    return {item: float(weight) for item, weight in weights.items()}


def check_columns(columns: Sequence[str], count: int | None = None) -> None:
    """Check names of columns: two or more, or so many, all different.

    Raises:
        ValueError: They are others.
    """
    if len(columns) != (count or max(2, len(columns))) or len(set(columns)) != len(columns):
        number = "two or more" if count is None else count
        raise ValueError(f"columns must be {number} different names, got {', '.join(columns) or 'none'}.")


def find_files(weights: Mapping[str, float]) -> dict[str, float]:
    """Return the files with their weights: those of a pattern in alphabetical order.

    Raises:
        DataError: A pattern matches no file, or two of them the same.
    """
    files: dict[str, float] = {}
    for item, weight in weights.items():
        paths = [item]
        if glob.has_magic(item) and not Path(item).exists():
            matches = glob.glob(item, recursive=True)  # noqa: PTH207  # Path.glob takes no absolute pattern
            paths = sorted(path for path in matches if Path(path).is_file())
        if not paths:
            raise DataError(f"no file matches {item}.", key="path")
        twice = [path for path in paths if path in files]
        if twice:
            raise DataError(
                "is found more than once.", twice[0], key="path", hint="Let only one pattern match it."
            )
        files |= dict.fromkeys(paths, weight)
    return files


def own_files(path: Files) -> list[Input]:
    """Return the files that the user names."""
    files = find_files(weighted(path))
    names = short_names(files)
    return [Input(Path(file), names[file], weight) for file, weight in files.items()]


def open_hub(
    path: Files | None, columns: Sequence[str], config: str | None, revision: str | None
) -> HubTable:
    """Open a data set on the hub, or a folder or file; see `HubTable`.

    Raises:
        ValueError: The path is not one name.
    """
    if not isinstance(path, str):
        raise ValueError(f"path must name one data set, got {path!r}.")
    from sts_lightning.data.readers.hub import HubTable  # imports `datasets`, of few runs

    with at_setting("path"):
        return HubTable(path, columns, config, revision)


def training_files(root: str, path: Files | None, *published: str, part: str) -> list[Input]:
    """Return training files: those of ``path``, or the first published one that is there.

    Args:
        root: Data root.
        path: Value of the setting, or None.
        published: Paths of files below the root.
        part: Argument of ``sts-lightning data get`` that fetches the first of them.

    Raises:
        DataError: None of them exists.
    """
    if path is not None:
        return own_files(path)
    for name in published:
        if (file := Path(root) / name).is_file():
            return [Input(file, file.name)]
    raise DataError(
        f"no {' or '.join(published)} here; name the file with path=...", root, hint=fetch_hint(part, root)
    )


def read_sources(sources: Iterable[Input], read: Callable[[Any, str], Table]) -> Table:
    """Read sources into one table, one after another.

    Args:
        sources: The sources.
        read: Function from a source and its name for records to its examples, with their count.
    """
    with at_setting("path"):
        return concatenate([read(source, name).weighted(weight) for source, name, weight in sources])


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
