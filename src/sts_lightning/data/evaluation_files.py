"""Test tasks from the user's own files of scored pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from sts_lightning.data.pair_tables import make_table, require_varied_scores
from sts_lightning.data.readers.row_values import BadRows, number, score, sentence
from sts_lightning.data.readers.senteval import STSTask
from sts_lightning.data.readers.text_files import read_records
from sts_lightning.errors import ConfigError

RESERVED = ("dev", "average", "rank", "minutes", "GB")
"""Other columns of the tables of scores, of which no test task has the name."""


def task_name(path: Path, alone: bool = True) -> str:
    """Return the name of the test task of a file: its own without the suffix, with its folder where needed.

    Args:
        path: Path of the file.
        alone: Whether no other file has this name.
    """
    if alone and path.stem not in RESERVED:
        return path.stem
    return f"{path.absolute().parent.name}/{path.stem}"


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


def load_test_files(
    files: Sequence[str],
    columns: tuple[str, str, str] = ("sentence1", "sentence2", "score"),
    score_range: tuple[float, float] | None = None,
    setting: str = "sentence1, sentence2 and score",
) -> list[STSTask]:
    """Read each file as a test task of its name without the suffix.

    Scores keep their scale, which changes no correlation. Files of one name in different folders are named
    with the folder, and so is a file with a name of `RESERVED`.

    Args:
        files: Paths of CSV, TSV or JSONL files.
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
    names = _names(paths)
    tasks = []
    for name, path in zip(names, paths, strict=True):
        rows, bad = [], BadRows()
        for line, (first, second, gold) in read_records(path, list(columns), columns[2:], setting, bad):
            with bad:
                value = (
                    number(gold, path, line) if score_range is None else score(gold, score_range, path, line)
                )
                rows.append((sentence(first, path, line), sentence(second, path, line), value))
        bad.check()
        firsts, seconds, scores = zip(*rows, strict=True)
        table = make_table({"sentence1": firsts, "sentence2": seconds, "label": scores})
        require_varied_scores(table, path)
        tasks.append(STSTask(name, {"test": table}))
    return tasks


def _names(paths: Sequence[Path]) -> list[str]:
    stems = Counter(path.stem for path in paths)
    names = [task_name(path, stems[path.stem] == 1) for path in paths]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ConfigError(
            f"{', '.join(twice)} would be the name of more than one test file.",
            key="test",
            hint="Name each file once, and rename files that differ in nothing but their suffix.",
        )
    return names
