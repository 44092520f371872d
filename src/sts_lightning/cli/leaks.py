"""`sts-lightning leaks`: report training pairs that also occur in the test sets, write a clean copy."""

from __future__ import annotations

import argparse
import csv
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from sts_lightning.cli.arguments import Commands, add_file, fraction, reject_unused
from sts_lightning.errors import ConfigError
from sts_lightning.files import check_output, write_atomic

if TYPE_CHECKING:
    from datasets import Dataset

    from sts_lightning.data.leak_search import Leak, Pairs


def add_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command to the program."""
    parser = commands.add_parser(
        "leaks",
        help="training pairs that also occur in the test sets: exact, swapped, normalised, nearly equal",
    )
    add_file(parser, "CSV, TSV or JSONL file of pairs; default: STS-B and SICK-R train")
    parser.add_argument("--against", default="sts7", help="sts7, or a file of test pairs; default: sts7")
    parser.add_argument(
        "--columns",
        nargs=2,
        default=["sentence1", "sentence2"],
        metavar=("FIRST", "SECOND"),
        help="the columns of the sentences in the files; default: sentence1 sentence2",
    )
    parser.add_argument(
        "--near",
        type=fraction,
        default=0.8,
        help="smallest fraction of common 4-grams of near duplicates; 0: no near duplicates; "
        "default: %(default)s",
    )
    parser.add_argument("--list", type=Path, dest="listing", help="write the leaks to this CSV file")
    parser.add_argument("--write", type=Path, help="write the training file without them to this file")
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    against = None if options.against == "sts7" else Path(options.against)
    if options.file is None and against is None:
        reject_unused(options, ("columns",), "without a file")
    if options.file is not None and against is not None:
        reject_unused(options, ("data_root",), "with two files")
    check_output("--list", options.listing, options.file, against)
    suffix = None if options.file is None else options.file.suffix or None  # it has the source's format
    check_output("--write", options.write, against, options.listing, suffix=suffix)
    columns = tuple(options.columns)
    if columns[0] == columns[1]:
        raise ConfigError(f"--columns names {columns[0]!r} twice; a pair has two columns.", key="columns")
    source = read_source(options.file, columns, options.data_root)
    tests = read_tests(against, columns, options.data_root)
    report_leaks(source, tests, options.near or None, options.listing, options.write)


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


def read_source(path: Path | None, columns: tuple[str, str], data_root: str) -> Source:
    """Read the pairs of a CSV, TSV or JSONL file, by default those of STS-B and SICK-R train.

    Raises:
        DataError: A file is missing or malformed.
    """
    from sts_lightning.data.files import read_text_pairs
    from sts_lightning.data.pair_tables import pairs_of
    from sts_lightning.data.readers.senteval import load_sickr, load_stsb  # --help does not wait for these

    if path is None:
        tables = (load_stsb(data_root, "train"), load_sickr(data_root, "train"))
        return Source([pair for table in tables for pair in pairs_of(table)])
    pairs, lines = read_text_pairs(path, columns)
    return Source(pairs, path, lines)


def read_tests(path: Path | None, columns: tuple[str, str], data_root: str) -> dict[str, list[Dataset]]:
    """Read the seven test sets, or the pairs of a file.

    Raises:
        DataError: A file is missing or malformed.
    """
    from sts_lightning.data.files import read_text_pairs
    from sts_lightning.data.pair_tables import make_table
    from sts_lightning.data.readers.senteval import load_sts_tasks

    if path is None:
        return {task.name: list(task.subsets.values()) for task in load_sts_tasks(data_root)}
    first, second = zip(*read_text_pairs(path, columns)[0], strict=True)
    return {path.name: [make_table({"sentence1": first, "sentence2": second})]}


def report_leaks(
    source: Source,
    tests: dict[str, list[Dataset]],
    near: float | None,
    listing: Path | None = None,
    clean: Path | None = None,
) -> list[Leak]:
    """Print the number of leaks by test set and kind; list them and write a cleaned copy if requested.

    Args:
        source: Training pairs.
        tests: Tables of each test set.
        near: See `find_leaks`.
        listing: CSV file for the leaks, one per row.
        clean: File for the remaining training pairs, in the format of the source's file.

    Raises:
        ConfigError: ``clean`` is given without a source file, or is that file.
    """
    from sts_lightning.data.leak_search import KINDS, find_leaks

    if clean is not None and (
        source.path is None or os.path.realpath(clean) == os.path.realpath(source.path)
    ):
        raise ConfigError("--write needs a training file, and a name other than that of the training file.")
    leaks = find_leaks(source.pairs, tests, near)
    kinds = [kind for kind in KINDS if kind != "near" or near is not None]
    table = Table(title=f"Training pairs, of {len(source.pairs):,}, that also occur in a test set")
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
    from sts_lightning.data.readers.text_files import read_lines

    assert source.path is not None
    lines = read_lines(source.path)
    starts = [1, *(end + 1 for end in source.ends[:-1])]
    starts[0] = 1 if source.path.suffix.lower() == ".jsonl" else 2  # after the header line
    gone = {
        line for row in leaking for line in range(starts[row], source.ends[row] + 1)
    }  # a quoted field may span lines
    kept = [line for number, line in enumerate(lines, start=1) if number not in gone]
    write_atomic(path, "\n".join(kept) + "\n")
