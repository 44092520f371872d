"""Readers of text files that yield rows with line numbers, so that every error names file and line."""

from __future__ import annotations

import csv
import gzip
import json
import logging
import re
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sts_lightning.core.errors import DataError, counted, line_or_row
from sts_lightning.core.files import parse_json
from sts_lightning.data.readers.column_names import listed, missing_columns
from sts_lightning.data.readers.row_values import BadRows, plain, text_of

log = logging.getLogger(__name__)

SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")
"""Ends of the names of tables, each of which may be followed by ``.gz``."""

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
"""What may separate the columns of a CSV file: semicolons where a spreadsheet writes decimal commas."""

_NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)\s*")
_DECIMAL_COMMA = re.compile(r"\s*[+-]?[0-9]*,[0-9]+\s*")
_QUOTED_DECIMAL = re.compile(r'"\s*[+-]?[0-9]*,[0-9]+\s*"')
_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*")

_SEPARATOR_LINE = re.compile(r'"?sep=([^\w\s"]|\t)"?')
"""First line by which Excel is told, and tells others, what separates the columns."""

_CONTROL = re.compile("[\x80-\x9f]")
"""Control characters that no text has: in Windows-1252 their bytes are the euro sign, quotes and dashes."""

Row = tuple[int, list[str]]
"""Line number (from 1; of Parquet the number of the row, from 0) and fields."""


def suffix_of(path: str | Path) -> str:
    """Return the end of a file's name that tells its format, in lower case: ``.csv`` of ``pairs.csv.gz``."""
    name = Path(path).name.lower()
    return Path(name.removesuffix(".gz")).suffix


def stem_of(path: str | Path) -> str:
    """Return a file's name without the end that tells its format: ``pairs`` of ``pairs.csv.gz``."""
    path = Path(path)
    return Path(path.stem).stem if path.suffix.lower() == ".gz" else path.stem


def read_bytes(path: Path) -> bytes:
    """Return the contents of a file, decompressed if its name ends in ``.gz``.

    Raises:
        DataError: The file is missing or broken.
    """
    try:
        raw = path.read_bytes()
        return gzip.decompress(raw) if path.suffix.lower() == ".gz" else raw
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"cannot be decompressed ({error}).", path, hint="Check it with `gzip -t FILE`."
        ) from error
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror}).", path) from error


def read_lines(path: Path, latin1: bool = False) -> list[str]:
    r"""Read the lines of a UTF-8 text file, without line ends.

    Only ``\n`` and ``\r\n`` end a line, since characters such as U+2028 occur inside sentences.

    Args:
        path: Path of the file, which may be compressed (``.gz``).
        latin1: Whether to read a file that is not UTF-8 as Latin-1, the encoding of some old releases.

    Raises:
        DataError: The file is missing or empty, or a line is not UTF-8 or contains a NUL character.
    """
    raw = read_bytes(path).removeprefix(BOM_UTF8)
    if not raw.strip():
        raise DataError("the file is empty.", path)
    if latin1:
        with suppress(UnicodeDecodeError):
            raw.decode("utf-8")
            latin1 = False
    lines = []
    for number, line in enumerate(raw.removesuffix(b"\n").split(b"\n"), start=1):
        try:
            text = line.decode("latin-1" if latin1 else "utf-8")
        except UnicodeDecodeError as error:
            # Windows-1252 is Latin-1 but for 0x80 to 0x9f, which no Latin-1 text has.
            marked = raw.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
            raise DataError(
                f"byte 0x{line[error.start]:02x} at column {error.start + 1} is not UTF-8.",
                path,
                number,
                hint=f"Convert the file: `iconv -f {'utf-16' if marked else 'cp1252'} -t utf-8 OLD > NEW`.",
            ) from error
        if "\0" in text:
            raise DataError("a NUL character; is the file UTF-16? Convert it to UTF-8.", path, number)
        lines.append(text.removesuffix("\r"))
    return lines


def strip_blank_end(lines: list[str]) -> list[str]:
    """Strip blank lines from the end of a file."""
    end = len(lines)
    while end and not lines[end - 1].strip(" \r"):
        end -= 1
    return lines[:end]


def read_tsv(path: Path, columns: int) -> Iterator[Row]:
    """Read the rows of a tab-separated file without quoting, the format of the STS releases.

    Args:
        path: Path of the file. Blank lines at the end are ignored.
        columns: Minimum number of fields of a row; surplus fields are kept.

    Raises:
        DataError: The file cannot be read (`read_lines`), or a row has too few fields.
    """
    for number, line in enumerate(strip_blank_end(read_lines(path)), start=1):
        fields = line.split("\t")
        if len(fields) < columns:
            raise DataError(
                f"expected at least {columns} tab-separated columns, found {len(fields)}.", path, number
            )
        yield number, fields


def read_records(
    path: Path,
    columns: list[str],
    numbers: Collection[str] = (),
    setting: str | None = None,
    *,
    bad: BadRows,
) -> Iterator[Row]:
    """Read the named columns of a CSV, TSV, JSONL or Parquet file; the suffix determines the format.

    CSV is quoted as in spreadsheets, with commas, semicolons or tabs between the columns, as the header line
    shows, or what a first line such as ``sep=;`` names; TSV has no quoting. Blank lines at the end are
    ignored. A number may have a decimal comma, and is returned with a point: where the columns are not
    separated by commas, or no number of the file has a point.

    A file without a header line is read if it has a column of numbers and its first line can be a row of
    these columns, in the order of ``columns``; otherwise it is an error.

    Args:
        path: Path of the file.
        columns: Names of the columns, in the order of the returned fields.
        numbers: Names of the columns that hold numbers, which JSONL need not quote.
        setting: What the user names the columns with, for errors; None if the names are fixed.
        bad: Keeps the errors of rows, which are then left out: of JSONL those whose values are of another
            kind, of tables the header once more.

    Raises:
        DataError: The suffix is unknown, a column is missing or occurs twice, a row is malformed, or
            there are no rows.
    """
    wanted = Wanted(columns, numbers, setting)
    rows = _read_table(path, wanted, bad) if is_table(path) else _read_texts(path, wanted, bad)
    empty = True
    controls: list[int] = []
    for number, fields in rows:
        empty = False
        controls += [number for field in fields if has_control(field)]
        yield number, fields
    if empty:
        bad.check()
        raise DataError("the file has a header but no rows.", path)
    warn_of_controls(path, controls)


def has_control(text: str) -> bool:
    """Return whether a text has a control character, which none has that was read in its encoding."""
    return not text.isascii() and _CONTROL.search(text) is not None


def warn_of_controls(path: Path, lines: Sequence[int]) -> None:
    """Warn of texts with control characters, in these lines."""
    if lines:
        log.warning(
            "WARNING: %s: %s, the first in %s %d, with control characters (U+0080 to U+009F): mostly "
            "Windows-1252 that was read as Latin-1, which loses euro signs, quotation marks and dashes. "
            "Convert the original file: `iconv -f cp1252 -t utf-8 OLD > NEW`.",
            path,
            counted(len(lines), "text"),
            line_or_row(path),
            lines[0],
        )


@dataclass(frozen=True)
class Wanted:
    """Columns that are read.

    Attributes:
        columns: Their names, in the order of the returned values.
        numbers: Those that hold numbers.
        setting: What the user names them with, for errors; None if the names are fixed.
    """

    columns: Sequence[str]
    numbers: Collection[str] = ()
    setting: str | None = None


def is_table(path: Path) -> bool:
    """Return whether a file has lines of fields, as CSV and TSV, in place of objects.

    Raises:
        DataError: The suffix is unknown.
    """
    suffix = suffix_of(path)
    if suffix not in SUFFIXES:
        raise DataError(
            f"unknown file format; expected a name that ends in {', '.join(SUFFIXES)}, or in one of these "
            "and .gz.",
            path,
        )
    return suffix in (".csv", ".tsv")


class _Lines:
    """The lines of a CSV or TSV file.

    Attributes:
        lines: All lines.
        above: Number of lines above the first row of fields: one where ``sep=;`` names the separator.
        firsts: Fields of the first line by separator.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = lines = strip_blank_end(read_lines(path))
        self.quoting = suffix_of(path) == ".csv"
        named = _SEPARATOR_LINE.fullmatch(lines[0]) if self.quoting else None
        self.above = 0 if named is None else 1
        # The default limit of 131,072 characters is too low for long texts; no field is longer than the file.
        csv.field_size_limit(max(csv.field_size_limit(), sum(len(line) + 1 for line in lines)))
        self.firsts: dict[str, list[str]] = {}
        if len(lines) == self.above:
            raise DataError("the file has no header and no rows.", path)
        for separator in named[1] if named else SEPARATORS if self.quoting else "\t":
            with suppress(DataError):  # quoted as in CSV with another separator
                self.firsts[separator] = next(self.rows(separator))[1]
        if not self.firsts:
            next(self.rows(","))  # raises

    def rows(self, separator: str) -> Iterator[Row]:
        """Yield the number and the fields of each row."""
        if not self.quoting:
            yield from ((number, line.split(separator)) for number, line in enumerate(self.lines, start=1))
            return
        above = self.above
        reader = csv.reader(
            iter(f"{line}\n" for line in self.lines[above:]), delimiter=separator, strict=True
        )
        try:
            yield from ((reader.line_num + above, fields) for fields in reader)
        except csv.Error as error:
            raise DataError(f"not valid CSV ({error}).", self.path, reader.line_num + above) from error

    def separator(self) -> str:
        """Return what separates the most columns in the first line."""
        return max(reversed(self.firsts), key=lambda key: len(self.firsts[key]))


def read_head(
    path: Path, count: int, columns: Collection[str] = ()
) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the names of the columns of a file and its first records, as they are.

    Args:
        path: CSV, TSV, JSONL or Parquet file.
        count: Number of records.
        columns: Columns that tell what separates the columns of a CSV file.

    Raises:
        DataError: The file cannot be read, is malformed, or a column occurs twice.
    """
    if is_table(path):
        table = _Lines(path)
        named = (mark for mark, fields in table.firsts.items() if columns and {*columns} <= {*fields})
        rows = table.rows(next(named, table.separator()))
        line, names = next(rows)
        _reject_twice(names, path, line)
        records = []
        for line, fields in islice(rows, count):
            if len(fields) != len(names):
                raise DataError(f"expected {len(names)} columns, found {len(fields)}.", path, line)
            records.append(dict(zip(names, fields, strict=True)))
        return names, records
    if suffix_of(path) == ".parquet":
        parquet = _open_parquet(path)
        return parquet.schema_arrow.names, [record for _, record in islice(_rows_of(path, parquet), count)]
    records = [record for _, record in islice(read_objects(path), count)]
    return list(dict.fromkeys(name for record in records for name in record)), records


def _reject_twice(names: Sequence[str], path: Path, line: int | None = None) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"the header has {', '.join(map(repr, twice))} more than once.", path, line)


def _read_table(path: Path, wanted: Wanted, bad: BadRows) -> Iterator[Row]:
    table = _Lines(path)
    lines, rows, quoting, columns = table.lines, table.rows, table.quoting, list(wanted.columns)
    separator, header = _find_header(table, wanted)
    numbers = wanted.numbers
    decimals = [index for index, name in enumerate(columns) if name in numbers]
    if separator == ",":
        quoted = decimals and any(map(_QUOTED_DECIMAL.search, lines))  # else the file is not read twice
        values = _select(path, columns, header, rows(","), BadRows()) if quoted else ()
        if not quoted or not all(_without_point(fields[index]) for _, fields in values for index in decimals):
            decimals = []
    decimal = "a decimal comma is read ('3,5' as 3.5)"
    if quoting and separator != ",":
        word = SEPARATORS.get(separator, separator)
        log.info("%s: the columns are separated by %s%s", path, word, f", and {decimal}" if decimals else "")
    elif quoting and decimals:
        log.info("%s: no number has a point, and %s", path, decimal)
    warned = quoting  # quotes are no text in CSV
    for number, fields in _select(path, columns, header, rows(separator), bad):
        for index in decimals:
            if _DECIMAL_COMMA.fullmatch(fields[index]):
                fields[index] = fields[index].replace(",", ".")
        if not warned and any(map(_looks_quoted, fields)):
            warned = True
            log.warning(
                'WARNING: %s, line %d: a text looks quoted as in CSV ("like ""this"""). TSV has no quoting: '
                "the quotes count as text. If they do not belong to the sentences, save the file as .csv.",
                path,
                number,
            )
        yield number, fields


def _without_point(number: str) -> bool:
    """Return whether a number is whole or has a decimal comma."""
    return bool(_DECIMAL_COMMA.fullmatch(number) or _WHOLE.fullmatch(number))


def _find_header(table: _Lines, wanted: Wanted) -> tuple[str, list[str] | None]:
    """Return the separator of a file and its header, None if the first line is a row of these columns.

    Raises:
        DataError: A column is missing.
    """
    path, line, firsts = table.path, table.above + 1, table.firsts
    columns = list(wanted.columns)
    for separator, fields in firsts.items():
        if set(columns) <= set(fields):
            return separator, fields
    kinds = [name in wanted.numbers for name in columns]
    rows = [separator for separator, fields in firsts.items() if _kinds(fields) == kinds]
    if rows and True in kinds and False in kinds:
        log.info(
            "%s: line %d has no column names; the columns are taken for %s", path, line, ", ".join(columns)
        )
        return rows[-1], None  # "Yes, sir.;No;0,5" has three fields by commas, too
    header = firsts[table.separator()]
    missing = [column for column in columns if column not in header]
    otherwise = ""
    if len(header) < len(columns):
        known = "tabs" if not table.quoting else "commas, semicolons or tabs"
        other = "" if known == "tabs" else "; a first line such as sep=| names another character"
        otherwise = f"Separate the columns by {known}{other}."
    elif missing == columns:
        names = f"the names of the {len(header)} columns, {listed(columns)} among them,"
        otherwise = f"If line {line} is data, add a line with {names} above it."
    message, hint = missing_columns(missing, columns, header, wanted.numbers, wanted.setting, otherwise)
    raise DataError(message, path, line, hint=hint)


def _kinds(fields: list[str]) -> list[bool | None]:
    """Return for each field whether it is a number, None if it is blank."""
    return [
        bool(_NUMBER.fullmatch(field) or _DECIMAL_COMMA.fullmatch(field)) if field.strip() else None
        for field in fields
    ]


def _looks_quoted(field: str) -> bool:
    """Return whether a field has the quotes of CSV: around it, and doubled within."""
    if not (field.startswith('"') and field.endswith('"')):
        return False
    inner = field[1:-1]
    return '""' in inner and '"' not in inner.replace('""', "")


def _select(
    path: Path, columns: list[str], header: list[str] | None, rows: Iterator[Row], bad: BadRows
) -> Iterator[Row]:
    if header is None:
        width, picks = len(columns), list(range(len(columns)))
    else:
        line, _ = next(rows)
        _reject_twice([name for name in header if name in columns], path, line)
        width, picks = len(header), [header.index(column) for column in columns]
    for number, fields in rows:
        if len(fields) != width:
            raise DataError(f"expected {width} columns, found {len(fields)}.", path, number)
        # Where files were joined; the second one may have begun with a byte order mark, its name in quotes.
        if header is not None and all(map(_same_name, fields, header)):
            with bad:
                raise DataError("the header once more, as in joined files; delete this line.", path, number)
            continue
        yield number, [fields[pick] for pick in picks]


def _same_name(field: str, name: str) -> bool:
    return field == name or field.strip(' \t\ufeff"') == name.strip(' \t"')


def read_objects(
    path: Path, wanted: Wanted | None = None, optional: Collection[str] = ()
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number of each line of a JSONL file, or each row of a Parquet file, and its object.

    Args:
        path: Path of the file.
        wanted: Columns that have to be there; of Parquet no others are read. All if not given.
        optional: Those that an object need not have.

    Raises:
        DataError: The file cannot be read, is malformed, or a column is missing.
    """
    if suffix_of(path) == ".parquet":
        parquet = _open_parquet(path)
        if wanted is not None:
            _check_keys(parquet.schema_arrow.names, wanted, optional, path, None)
        yield from _rows_of(path, parquet, None if wanted is None else wanted.columns)
        return
    for number, line in enumerate(strip_blank_end(read_lines(path)), start=1):
        try:
            record = parse_json(line)
        except ValueError as error:  # malformed, a key that occurs twice, an integer of thousands of digits
            reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            raise DataError(f"not valid JSON ({reason}).", path, number) from error
        if not isinstance(record, dict):
            raise DataError("expected a JSON object on each line.", path, number)
        if wanted is not None:
            _check_keys(record, wanted, optional, path, number)
        yield number, record


def _check_keys(
    names: Collection[str], wanted: Wanted, optional: Collection[str], path: Path, line: int | None
) -> None:
    missing = [column for column in wanted.columns if column not in names and column not in optional]
    if missing:
        message, hint = missing_columns(missing, wanted.columns, names, wanted.numbers, wanted.setting)
        raise DataError(message, path, line, hint=hint)


def _open_parquet(path: Path) -> pq.ParquetFile:
    try:
        parquet = pq.ParquetFile(pa.BufferReader(read_bytes(path)))
    except pa.ArrowException as error:
        raise DataError(f"not a valid Parquet file ({error}).", path) from error
    _reject_twice(parquet.schema_arrow.names, path)
    return parquet


def _rows_of(
    path: Path, parquet: pq.ParquetFile, columns: Sequence[str] | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    number = 0
    present = None if columns is None else [name for name in columns if name in parquet.schema_arrow.names]
    try:
        for batch in parquet.iter_batches(batch_size=1000, columns=present):
            for record in batch.to_pylist():
                yield number, record
                number += 1
    except pa.ArrowException as error:
        raise DataError(f"not a valid Parquet file ({error}).", path, number) from error


def _read_texts(path: Path, wanted: Wanted, bad: BadRows) -> Iterator[Row]:
    """Yield the number and the texts of the columns of each object."""
    for number, record in read_objects(path, wanted):
        with bad:
            yield (
                number,
                [
                    text_of(
                        plain(record[name], name, path, number), name, name in wanted.numbers, path, number
                    )
                    for name in wanted.columns
                ],
            )
