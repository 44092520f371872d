"""Files of training examples, with weights, and scored pairs of the user's own files."""

from __future__ import annotations

import contextlib
import glob
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sts_lightning.core.errors import ConfigError, DataError
from sts_lightning.core.files import last_name
from sts_lightning.data.fetch import fetch_hint
from sts_lightning.data.ranking import read_beir, read_ranking
from sts_lightning.data.readers.row_values import BadRows, Range, score, sentence
from sts_lightning.data.readers.sts_sets import STSTask
from sts_lightning.data.readers.text_files import read_records, stem_of
from sts_lightning.data.table import LABELLED, Table, concatenate, require_varied_scores
from sts_lightning.data.tasks import Task

if TYPE_CHECKING:
    from sts_lightning.data.readers.rows import Layout

Files = str | list[str] | dict[str, float]
"""A path, several paths, or paths with their weights; each may be a pattern such as ``parts/*.csv``."""

HEAVIEST = 1000.0
"""Greatest weight of a file."""

RESERVED = ("dev", "average", "rank", "minutes", "GB")
"""Other columns of the tables of scores, of which no test task has the name."""

SCORED_COLUMNS = ("sentence1", "sentence2", "score")
"""Usual names of the columns of the user's own pairs."""


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


def training_files(root: str, path: Files | None, *published: str, part: str) -> dict[str, float]:
    """Return training files with their weights: those of ``path``, or the first published one that is there.

    Args:
        root: Data root.
        path: Value of the setting, or None.
        published: Paths of files below the root.
        part: Argument of ``sts-lightning data get`` that fetches the first of them.

    Raises:
        DataError: None of them exists.
    """
    if path is not None:
        return find_files(weighted(path))
    for name in published:
        if (Path(root) / name).is_file():
            return {str(Path(root) / name): 1.0}
    raise DataError(
        f"no {' or '.join(published)} here; name the file with path=...", root, hint=fetch_hint(part, root)
    )


def read_files(files: Mapping[str, float], read: Callable[[Path, str], Table]) -> Table:
    """Read training files into one table, one after another.

    Args:
        files: Files with their weights.
        read: Function from a file and its name for records to its examples, with their count.
    """
    names = short_names(files)
    return concatenate([read(Path(file), names[file]).weighted(weight) for file, weight in files.items()])


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


def task_name(path: Path, alone: bool = True) -> str:
    """Return the name of the test task of a file: its own without the suffix, with its folder where needed.

    Args:
        path: Path of the file.
        alone: Whether no other file has this name.
    """
    stem = stem_of(path)
    if alone and stem not in RESERVED:
        return stem
    return f"{path.absolute().parent.name}/{stem}"


def read_text_pairs(path: Path, columns: Sequence[str]) -> tuple[list[tuple[str, str]], list[int]]:
    """Return the pairs of a file without scores, for a command with ``--columns``, and the last line of each.

    Raises:
        DataError: The file cannot be read, or rows are malformed.
    """
    pairs, lines, bad = [], [], BadRows()
    for line, (first, second) in read_records(path, list(columns), setting="--columns", bad=bad):
        with bad:
            pairs.append((sentence(first, path, line), sentence(second, path, line)))
            lines.append(line)
    bad.check()
    return pairs, lines


def scored_table(
    rows: Iterable[tuple[Path | str, int | None, Sequence[str]]], score_range: Range | None, bad: BadRows
) -> Table:
    """Return scored pairs, on the scale that they have.

    Args:
        rows: Place of each row, that is a file and a line or a text, and its sentences and score.
        score_range: Lowest and highest allowed score; not checked if not given.
        bad: Keeps the errors of rows, for the caller to check.
    """
    parsed = []
    for path, line, (first, second, gold) in rows:
        with bad:
            value = score(gold, score_range, path, line)
            parsed.append((sentence(first, path, line), sentence(second, path, line), value))
    return Table.of_rows(LABELLED, parsed)


def read_scored_pairs(
    path: Path, columns: Sequence[str], score_range: Range | None, setting: str, bad: BadRows
) -> Table:
    """Read the scored pairs of a file; see `scored_table`."""
    records = read_records(path, list(columns), columns[2:], setting, bad=bad)
    return scored_table(((path, line, fields) for line, fields in records), score_range, bad)


def load_test_files(
    files: Sequence[str],
    columns: tuple[str, str, str] = SCORED_COLUMNS,
    score_range: Range | None = None,
    setting: str = "sentence1, sentence2 and score",
) -> list[Task]:
    """Read each file as a test task of its name without the suffix, or a folder in BEIR's layout.

    Pairs with a score are scored, and rows of a query and its answers are ranked: each query ranks all
    answers and hard negatives of the file. Texts with classes rank each other. Which of them a file has is
    told from its columns (`recognise`), unless these are named.

    Scores keep their scale, which changes no correlation. Files of one name in different folders are named
    with the folder, and so is a file with a name of `RESERVED`.

    Args:
        files: Paths of CSV, TSV, JSONL or Parquet files, or of folders.
        columns: Names of the columns of the first sentence, the second sentence and the score.
        score_range: Lowest and highest allowed score; not checked if not given.
        setting: What the user names the columns with, for errors.

    Raises:
        DataError: A file cannot be read, a row is malformed, or all scores of a file are equal.
        ConfigError: A file is named twice, two have the same name, or two columns are the same.
    """
    if len(set(columns)) < 3:
        raise ConfigError(
            f"{setting} must name three different columns, got {', '.join(columns)}.",
            key=setting.partition(",")[0],
        )
    paths = [Path(file) for file in files]
    stems = Counter(map(stem_of, paths))
    names = [task_name(path, stems[stem_of(path)] == 1) for path in paths]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ConfigError(
            f"{', '.join(twice)} would be the name of more than one test file.",
            key="test",
            hint="Name each file once, and rename files that differ in nothing but their suffix.",
        )
    tasks: list[Task] = []
    for name, path in zip(names, paths, strict=True):
        layout = recognise_task(path) if tuple(columns) == SCORED_COLUMNS else None
        if path.is_dir():
            tasks.append(replace(read_beir(path, "test"), name=name))
        elif layout is not None and layout.kind != "scored":
            tasks.append(read_ranking(path, name, layout))
        else:
            tasks.append(
                _read_scored(path, name, layout.columns if layout else columns, score_range, setting)
            )
    return tasks


def recognise_task(path: Path) -> Layout | None:
    """Return what the columns of a test file are; None where it cannot be told."""
    from sts_lightning.data.readers.rows import recognise  # of few runs

    with contextlib.suppress(DataError):  # the reader of scored pairs says what is wrong
        return recognise(path)
    return None


def _read_scored(
    path: Path, name: str, columns: Sequence[str], score_range: Range | None, setting: str
) -> STSTask:
    bad = BadRows()
    table = read_scored_pairs(path, columns, score_range, setting, bad)
    bad.check()
    require_varied_scores(table, path)
    return STSTask(name, {"test": table})
