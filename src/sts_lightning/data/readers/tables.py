"""Rows of tables with named columns: CSV, TSV, JSONL and Parquet files, and splits of data sets of the hub.

Every row has a number, so that an error names file and line.
"""

from __future__ import annotations

import csv
import json
import logging
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from sts_lightning.core.errors import DataError
from sts_lightning.core.files import parse_json
from sts_lightning.data.readers.column_names import missing_columns
from sts_lightning.data.readers.lines import numbered_lines, read_bytes, suffix_of
from sts_lightning.data.readers.row_values import parse_rows, plain, text_of

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from datasets import Dataset

T = TypeVar("T")

SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")
"""Ends of the names of tables, each of which may be followed by ``.gz``."""

_SEPARATOR_LINE = re.compile(r'"?sep=([^\w\s"]|\t)"?')
"""First line by which Excel is told, and tells others, what separates the columns."""


@dataclass(frozen=True, eq=False)
class Split:
    """A split of a data set of the hub.

    Attributes:
        name: Names of data set and split, for errors.
        rows: The split as `datasets` has it.
    """

    name: str
    rows: Dataset

    def __str__(self) -> str:
        return self.name


Source = Path | Split
"""A file or a split."""


class Input(NamedTuple):
    """A source with its name for records, and the share of its rows that an epoch has."""

    source: Source
    name: str
    weight: float = 1.0


Values = Iterator[tuple[int, Sequence[Any]]]
"""Number and values of each row: the line, from 1; of Parquet and the hub the row, from 0."""


def read_rows(
    source: Source,
    columns: Sequence[str],
    parse: Callable[[Sequence[Any]], T],
    *,
    numbers: Collection[str] = (),
    optional: Collection[str] = (),
    setting: str | None = None,
    lists: bool = False,
    hint: str | None = None,
) -> Iterator[tuple[int, T]]:
    """Yield the number of each row and what is parsed of the values of its columns.

    The end of a file's name determines its format. CSV is quoted as in spreadsheets, with commas, semicolons
    or tabs between the columns, whichever the header line has most of, or what a first line such as ``sep=|``
    names; TSV has no quoting. Blank lines at the end are ignored.

    Args:
        source: The file, or a split of the hub.
        columns: Names of the columns, in the order of the values.
        parse: Function from the values of a row, see `parse_rows`.
        numbers: Names of the columns that hold numbers, which need not be quoted in JSONL.
        optional: Names of the columns that a row need not have; its value is then None.
        setting: What the user names the columns with, for errors; None if the names are fixed.
        lists: Whether values are parsed as they are, lists too; else as texts.
        hint: Suggested fix where no row can be parsed.

    Raises:
        DataError: The file cannot be read, a column is missing or occurs twice, rows are malformed, or there
            are none.
    """

    def parse_texts(values: Sequence[Any]) -> T:
        named = zip(columns, values, strict=True)
        return parse([text_of(plain(value, name), name, name in numbers) for name, value in named])

    def check(names: Collection[str], line: int | None, otherwise: str = "") -> None:
        missing = [column for column in columns if column not in names and column not in optional]
        if missing:
            message, instead = missing_columns(missing, columns, names, numbers, setting, otherwise)
            key = setting if setting is not None and setting.startswith("data.") else None
            raise DataError(message, str(source), line, key, instead)

    if has_fields(source):
        rows, parse_row = _select(source, columns, check), parse
    else:
        rows, parse_row = _read_values(source, columns, check), parse if lists else parse_texts
    first = next(rows, None)
    if first is None:
        raise DataError("there are no rows.", str(source))
    yield from parse_rows(source, chain([first], rows), parse_row, hint)


def read_head(source: Source, count: int) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the names of the columns of a table and its first records, as they are.

    Raises:
        DataError: The file cannot be read, is malformed, or a column occurs twice.
    """
    if has_fields(source):
        rows = _fields(source)
        line, names = next(rows)
        _reject_twice(names, source, line)
        return names, [dict(zip(names, fields, strict=True)) for _, fields in islice(rows, count)]
    if isinstance(source, Split) or suffix_of(source) == ".parquet":
        names, batches = _batches(source)
        batch = next(batches(names), {})
        return names, [dict(zip(batch, row, strict=True)) for row in zip(*batch.values(), strict=True)][
            :count
        ]
    records = [record for _, record in islice(_objects(source), count)]
    return list(dict.fromkeys(name for record in records for name in record)), records


def has_fields(source: Source) -> TypeGuard[Path]:
    """Return whether a source has lines of fields, as CSV and TSV, in place of objects.

    Raises:
        DataError: The suffix is unknown.
    """
    if isinstance(source, Split):
        return False
    suffix = suffix_of(source)
    if suffix not in SUFFIXES:
        raise DataError(
            f"unknown file format; expected a name that ends in {', '.join(SUFFIXES)}, or in one of these "
            "and .gz.",
            source,
        )
    return suffix in (".csv", ".tsv")


def _fields(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the fields of each row of a CSV or TSV file, those of its header first."""
    lines = [line for _, line in numbered_lines(path)]
    named = _SEPARATOR_LINE.fullmatch(lines[0]) if suffix_of(path) == ".csv" else None
    above = 0 if named is None else 1
    if len(lines) == above:
        raise DataError("the file has no header and no rows.", path)
    rows: Iterator[tuple[int, list[str]]]
    if suffix_of(path) == ".tsv":
        rows = ((number, line.split("\t")) for number, line in enumerate(lines, start=1))
    else:
        separator = max(",;\t", key=lines[0].count) if named is None else named[1]
        rows = _quoted_fields(path, lines, above, separator)
    header = next(rows)
    yield header
    for number, fields in rows:
        if len(fields) != len(header[1]):
            raise DataError(f"expected {len(header[1])} columns, found {len(fields)}.", path, number)
        # Where files were joined; the second one may have begun with a byte order mark, its name in quotes.
        if all(map(_same_name, fields, header[1])):
            raise DataError(
                "the header once more, as in joined files; delete this line and others like it.", path, number
            )
        yield number, fields


def _quoted_fields(
    path: Path, lines: Sequence[str], above: int, separator: str
) -> Iterator[tuple[int, list[str]]]:
    # The default limit of 131,072 characters is too low for long texts; no field is longer than the file.
    csv.field_size_limit(max(csv.field_size_limit(), sum(len(line) + 1 for line in lines)))
    reader = csv.reader((f"{line}\n" for line in lines[above:]), delimiter=separator, strict=True)
    try:
        for fields in reader:
            yield reader.line_num + above, fields
    except csv.Error as error:
        raise DataError(f"not valid CSV ({error}).", path, reader.line_num + above) from error


def _same_name(field: str, name: str) -> bool:
    return field == name or field.strip(' \t\ufeff"') == name.strip(' \t"')


def _reject_twice(names: Sequence[str], source: Source, line: int | None = None) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"the header has {', '.join(map(repr, twice))} more than once.", str(source), line)


def _select(path: Path, columns: Sequence[str], check: Callable[[Collection[str], int, str], None]) -> Values:
    rows = _fields(path)
    line, header = next(rows)
    tsv = suffix_of(path) == ".tsv"
    marks = "tabs" if tsv else "commas, semicolons or tabs, or what a line such as sep=| above it names"
    check(header, line, f"Line {line} has to name the columns, separated by {marks}.")
    _reject_twice([name for name in header if name in columns], path, line)
    picks = [header.index(column) for column in columns]
    warned = not tsv  # quotes are no text in CSV
    for number, fields in rows:
        if not warned and any(map(_looks_quoted, fields)):
            warned = True
            log.warning(
                'WARNING: %s, line %d: a text looks quoted as in CSV ("like ""this"""). TSV has no quoting: '
                "the quotes count as text. If they do not belong to the sentences, save the file as .csv.",
                path,
                number,
            )
        yield number, [fields[pick] for pick in picks]


def _looks_quoted(field: str) -> bool:
    """Return whether a field has the quotes of CSV: around it, and doubled within."""
    if not (field.startswith('"') and field.endswith('"')):
        return False
    inner = field[1:-1]
    return '""' in inner and '"' not in inner.replace('""', "")


def _read_values(
    source: Source, columns: Sequence[str], check: Callable[[Collection[str], int | None], None]
) -> Values:
    """Yield the values of columns of objects, or of a table of Arrow."""
    if isinstance(source, Path) and suffix_of(source) == ".jsonl":
        for line, record in _objects(source):
            check(record, line)
            yield line, [record.get(column) for column in columns]
        return
    names, batches = _batches(source)
    check(names, None)
    number = 0
    try:
        for batch in batches([name for name in columns if name in names]):
            size = len(next(iter(batch.values())))
            values = [batch.get(column, [None] * size) for column in columns]
            yield from enumerate(zip(*values, strict=True), start=number)
            number += size
    except pa.ArrowException as error:
        raise DataError(f"not a valid Parquet file ({error}).", str(source), number) from error


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in numbered_lines(path):
        try:
            record = parse_json(line)
        except ValueError as error:  # malformed, a key that occurs twice, an integer of thousands of digits
            reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            raise DataError(f"not valid JSON ({reason}).", path, number) from error
        if not isinstance(record, dict):
            raise DataError("expected a JSON object on each line.", path, number)
        yield number, record


Batches = Callable[[list[str]], Iterator[dict[str, list[Any]]]]
"""Reader of the values of columns, many rows at a time."""


def _batches(source: Source) -> tuple[list[str], Batches]:
    """Return the names of the columns of a Parquet file or a split, and a reader of some of them."""
    if isinstance(source, Split):
        rows = source.rows
        return rows.column_names, lambda columns: rows.select_columns(columns).iter(batch_size=1000)
    try:
        parquet = pq.ParquetFile(pa.BufferReader(read_bytes(source)))
    except pa.ArrowException as error:
        raise DataError(f"not a valid Parquet file ({error}).", source) from error
    names = parquet.schema_arrow.names
    _reject_twice(names, source)
    return names, lambda columns: (batch.to_pydict() for batch in parquet.iter_batches(1000, columns=columns))
