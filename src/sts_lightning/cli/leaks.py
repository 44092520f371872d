"""What of a training file stands in the test sets: table, list, and the file without it."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from datasets import Dataset
from rich.console import Console
from rich.table import Table

from sts_lightning.data.leak_search import KINDS, Leak, Pairs, find_leaks
from sts_lightning.data.pair_tables import make_table
from sts_lightning.data.readers.senteval import load_sickr, load_sts_tasks, load_stsb
from sts_lightning.data.readers.text_files import read_lines, read_records
from sts_lightning.errors import ConfigError
from sts_lightning.files import write_atomic


@dataclass(frozen=True)
class Source:
    """Training pairs and where they come from.

    Attributes:
        pairs: The pairs.
        path: Their file, None for the STS corpus.
        ends: The last line of each pair in the file.
    """

    pairs: Pairs
    path: Path | None = None
    ends: Sequence[int] = ()


def read_source(path: Path | None, columns: tuple[str, str], data_root: str) -> Source:
    """Pairs of a CSV, TSV or JSONL file, or without one of STS-B and SICK-R train.

    Raises:
        DataError: A file is missing or malformed.
    """
    if path is None:
        tables = (load_stsb(data_root, "train"), load_sickr(data_root, "train"))
        return Source([pair for table in tables for pair in _pairs(table)])
    rows = list(read_records(path, list(columns)))
    return Source([(first, second) for _, (first, second) in rows], path, [line for line, _ in rows])


def read_tests(path: Path | None, columns: tuple[str, str], data_root: str) -> dict[str, list[Dataset]]:
    """The seven test sets, or the pairs of a file.

    Raises:
        DataError: A file is missing or malformed.
    """
    if path is None:
        return {task.name: list(task.subsets.values()) for task in load_sts_tasks(data_root)}
    first, second = zip(*(fields for _, fields in read_records(path, list(columns))), strict=True)
    return {path.name: [make_table({"sentence1": first, "sentence2": second})]}


def _pairs(table: Dataset) -> list[tuple[str, str]]:
    return list(zip(table["sentence1"], table["sentence2"], strict=True))


def report_leaks(
    source: Source,
    tests: dict[str, list[Dataset]],
    near: float | None,
    listing: Path | None = None,
    clean: Path | None = None,
) -> list[Leak]:
    """Count leaks by test set and kind; list them and write the file without them if asked to.

    Args:
        source: The training pairs.
        tests: Tables of each test set.
        near: See `find_leaks`.
        listing: CSV file for the leaks, one a row.
        clean: File for the training pairs that are left, in the form of the source's file.

    Raises:
        ConfigError: ``clean`` without a source file, or over it.
    """
    if clean is not None and (source.path is None or clean.resolve() == source.path.resolve()):
        raise ConfigError("--write needs a training file, and another name than that file has.")
    leaks = find_leaks(source.pairs, tests, near)
    kinds = [kind for kind in KINDS if kind != "near" or near is not None]
    table = Table(title=f"Of {len(source.pairs):,} training pairs, those that a test set has too")
    for heading in ("", *kinds, "any"):
        table.add_column(heading, justify="right" if heading else "left")
    strongest: dict[int, str] = {}
    for leak in leaks:
        known = strongest.get(leak.row, kinds[-1])
        strongest[leak.row] = min(known, leak.kind, key=KINDS.index)
    for task in tests:
        found = [leak.kind for leak in leaks if leak.task == task]
        table.add_row(task, *(str(found.count(kind)) for kind in kinds), str(len(found)))
    whole = list(strongest.values())
    table.add_row("distinct pairs", *(str(whole.count(kind)) for kind in kinds), str(len(whole)))
    Console().print(table)
    if listing is not None:
        _write_list(source, leaks, listing)
    if clean is not None:
        _write_clean(source, set(strongest), clean)
    return leaks


def _write_list(source: Source, leaks: Sequence[Leak], path: Path) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["row", "line", "kind", "test_set", "sentence1", "sentence2", "test1", "test2"])
    for leak in leaks:
        line = source.ends[leak.row] if source.ends else ""
        pair = source.pairs[leak.row]
        writer.writerow([leak.row, line, leak.kind, leak.task, *pair, *leak.test_pair])
    write_atomic(path, text.getvalue())


def _write_clean(source: Source, leaking: set[int], path: Path) -> None:
    assert source.path is not None
    lines = read_lines(source.path)
    starts = [1, *(end + 1 for end in source.ends[:-1])]
    starts[0] = 1 if source.path.suffix.lower() == ".jsonl" else 2  # behind the header, which is one line
    gone = {
        line for row in leaking for line in range(starts[row], source.ends[row] + 1)
    }  # a quoted field may span lines
    kept = [line for number, line in enumerate(lines, start=1) if number not in gone]
    write_atomic(path, "\n".join(kept) + "\n")
