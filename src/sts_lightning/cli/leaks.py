"""`sts-lightning leaks`: report training pairs that also occur in the test sets, write a clean copy."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from datasets import Dataset
from rich.console import Console
from rich.table import Table

from sts_lightning.cli.options import FILE, FRACTION, columns, data_root
from sts_lightning.data.evaluation_files import read_text_pairs
from sts_lightning.data.leak_search import KINDS, Leak, Pairs, find_leaks
from sts_lightning.data.pair_tables import make_table, pairs_of
from sts_lightning.data.readers.senteval import load_sickr, load_sts_tasks, load_stsb
from sts_lightning.data.readers.text_files import read_lines
from sts_lightning.errors import ConfigError
from sts_lightning.files import check_output, write_atomic


@dataclass(frozen=True)
class Source:
    """Training pairs and their file.

    Attributes:
        pairs: Pairs of sentences.
        path: File of the pairs, None for the STS corpus.
        ends: Last line of each pair in the file.
    """

    pairs: Pairs
    path: Path | None = None
    ends: Sequence[int] = ()


@click.command("leaks")
@click.argument("file", type=FILE, required=False)
@data_root()
@click.option("--against", default="sts7", show_default=True, help="sts7, or a file of test pairs.")
@columns("sentence1", "sentence2")
@click.option(
    "--near",
    type=FRACTION,
    default=0.8,
    show_default=True,
    help="Smallest fraction of common 4-grams of near duplicates; 0: no near duplicates.",
)
@click.option("--list", "listing", type=FILE, help="Write the leaks to this CSV file.")
@click.option("--write", "clean", type=FILE, help="Write the training file without them to this file.")
def leaks_command(
    file: Path | None,
    data_root: str,
    against: str,
    columns: tuple[str, str],
    near: float,
    listing: Path | None,
    clean: Path | None,
) -> None:
    """Count the training pairs that also occur in a test set: exact, swapped, normalised, nearly equal.

    FILE is a CSV, TSV or JSONL file of pairs, by default the training pairs of STS-B and SICK-R.
    """
    tests_file = None if against == "sts7" else Path(against)
    check_output("--list", listing, file, tests_file)
    suffix = None if file is None else file.suffix or None  # it has the source's format
    check_output("--write", clean, tests_file, listing, suffix=suffix)
    if clean is not None and (file is None or os.path.realpath(clean) == os.path.realpath(file)):
        raise ConfigError("--write needs a training file, and a name other than that of the training file.")
    if columns[0] == columns[1]:
        raise ConfigError(f"--columns names {columns[0]!r} twice; a pair has two columns.", key="columns")
    source = _read_source(file, columns, data_root)
    tests = _read_tests(tests_file, columns, data_root)
    leaks = find_leaks(source.pairs, tests, near or None)
    strongest = _strongest(leaks)
    _print(source, tests, leaks, strongest, [kind for kind in KINDS if kind != "near" or near])
    if listing is not None:
        _write_list(source, leaks, listing)
    if clean is not None:
        _write_clean(source, set(strongest), clean)


def _read_source(path: Path | None, columns: tuple[str, str], data_root: str) -> Source:
    if path is None:
        tables = (load_stsb(data_root, "train"), load_sickr(data_root, "train"))
        return Source([pair for table in tables for pair in pairs_of(table)])
    pairs, lines = read_text_pairs(path, columns)
    return Source(pairs, path, lines)


def _read_tests(path: Path | None, columns: tuple[str, str], data_root: str) -> dict[str, list[Dataset]]:
    if path is None:
        return {task.name: list(task.subsets.values()) for task in load_sts_tasks(data_root)}
    first, second = zip(*read_text_pairs(path, columns)[0], strict=True)
    return {path.name: [make_table({"sentence1": first, "sentence2": second})]}


def _strongest(leaks: Sequence[Leak]) -> dict[int, str]:
    """Return the strongest kind of leak of each row that has one."""
    found: dict[int, str] = {}
    for leak in leaks:
        found[leak.row] = min(found.get(leak.row, leak.kind), leak.kind, key=KINDS.index)
    return found


def _print(
    source: Source,
    tests: dict[str, list[Dataset]],
    leaks: Sequence[Leak],
    strongest: dict[int, str],
    kinds: Sequence[str],
) -> None:
    """Print the number of leaks by test set and kind."""
    table = Table(title=f"Training pairs, of {len(source.pairs):,}, that also occur in a test set")
    for heading in ("", *kinds, "any"):
        table.add_column(heading, justify="right" if heading else "left")
    rows: dict[str, list[str]] = {task: [leak.kind for leak in leaks if leak.task == task] for task in tests}
    for name, found in [*rows.items(), ("distinct pairs", [*strongest.values()])]:
        table.add_row(name, *(str(found.count(kind)) for kind in kinds), str(len(found)))
    Console().print(table)


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
    starts[0] = 1 if source.path.suffix.lower() == ".jsonl" else 2  # after the header line
    gone = {
        line for row in leaking for line in range(starts[row], source.ends[row] + 1)
    }  # a quoted field may span lines
    kept = [line for number, line in enumerate(lines, start=1) if number not in gone]
    write_atomic(path, "\n".join(kept) + "\n")
