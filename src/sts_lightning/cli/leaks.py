"""`sts-lightning leaks`: report training pairs that also occur in the test sets, write a clean copy."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import click
import pandas as pd

from sts_lightning.cli.options import COLUMNS, DATA_ROOT, FILE, FRACTION
from sts_lightning.core.errors import ConfigError
from sts_lightning.core.files import check_output, write_atomic
from sts_lightning.data.judged_files import read_text_pairs
from sts_lightning.data.readers.lines import read_lines, suffix_of
from sts_lightning.data.readers.sts_sets import load_sickr, load_sts_tasks, load_stsb
from sts_lightning.data.table import Table
from sts_lightning.evaluation.leaks import KINDS, Leak, Pairs, find_leaks


@click.command("leaks")
@click.argument("file", type=FILE, required=False)
@DATA_ROOT
@click.option("--against", default="sts7", help="sts7, or a file of test pairs.")
@COLUMNS
@click.option(
    "--near", type=FRACTION, default=0.8, help="Least share of common 4-grams of near duplicates; 0: none."
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

    FILE is a CSV, TSV, JSONL or Parquet file of pairs, by default the training pairs of STS-B and SICK-R.
    """
    tests_file = None if against == "sts7" else Path(against)
    check_output("--list", listing, file, tests_file)
    suffix = None if file is None else file.suffix or None  # it has the source's format
    check_output("--write", clean, file, tests_file, listing, suffix=suffix)
    if clean is not None and (file is None or suffix_of(file) == ".parquet"):
        raise ConfigError("--write copies lines of FILE, which must be CSV, TSV or JSONL.")
    if file is None:
        tables = (load_stsb(data_root, "train"), load_sickr(data_root, "train"))
        pairs, ends = [pair for table in tables for pair in table.pairs], list[int]()
    else:
        pairs, ends = read_text_pairs(file, columns)
    tests = _read_tests(tests_file, columns, data_root)
    leaks = find_leaks(pairs, tests, near or None)
    weakest_first = sorted(leaks, key=lambda leak: -KINDS.index(leak.kind))
    strongest = {leak.row: leak.kind for leak in weakest_first}
    rows = {task: [leak.kind for leak in leaks if leak.task == task] for task in tests}
    rows["distinct pairs"] = list(strongest.values())
    kinds = KINDS if near else KINDS[:-1]
    counts = {name: [*map(row.count, kinds), len(row)] for name, row in rows.items()}
    table = pd.DataFrame.from_dict(counts, orient="index", columns=[*kinds, "any"])
    click.echo(f"Training pairs, of {len(pairs):,}, that also occur in a test set\n{table.to_string()}")
    if listing is not None:
        _write_list(leaks, pairs, ends, listing)
    if clean is not None and file is not None:
        _write_clean(file, ends, set(strongest), clean)


def _read_tests(path: Path | None, columns: tuple[str, str], data_root: str) -> dict[str, list[Table]]:
    if path is None:
        return {task.name: list(task.subsets.values()) for task in load_sts_tasks(data_root)}
    first, second = zip(*read_text_pairs(path, columns)[0], strict=True)
    return {path.name: [Table({"sentence1": first, "sentence2": second})]}


def _write_list(leaks: Sequence[Leak], pairs: Pairs, ends: Sequence[int], path: Path) -> None:
    """Write the leaks as CSV; ``ends`` are the last lines of the pairs in their file, if they have one."""
    columns = ["row", "line", "kind", "test_set", "sentence1", "sentence2", "test1", "test2"]
    rows = [
        (leak.row, ends[leak.row] if ends else "", leak.kind, leak.task, *pairs[leak.row], *leak.test_pair)
        for leak in leaks
    ]
    write_atomic(path, pd.DataFrame(rows, columns=columns).to_csv(index=False, lineterminator="\n"))


def _write_clean(source: Path, ends: Sequence[int], leaking: set[int], path: Path) -> None:
    lines = read_lines(source)
    starts = [1, *(end + 1 for end in ends[:-1])]
    starts[0] = 1 if suffix_of(source) == ".jsonl" else 2  # after the header line
    # A quoted field may span lines.
    gone = {line for row in leaking for line in range(starts[row], ends[row] + 1)}
    kept = [line for number, line in enumerate(lines, start=1) if number not in gone]
    text = "\n".join(kept) + "\n"
    write_atomic(path, gzip.compress(text.encode(), mtime=0) if path.suffix.lower() == ".gz" else text)
