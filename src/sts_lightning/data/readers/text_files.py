"""Readers of text files that yield rows with line numbers, so that every error names file and line."""

from __future__ import annotations

import csv
import json
import logging
import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from sts_lightning.core.errors import DataError
from sts_lightning.core.files import parse_json
from sts_lightning.core.text import counted
from sts_lightning.data.readers.row_values import BadRows, text_of

log = logging.getLogger(__name__)

SUFFIXES = (".csv", ".tsv", ".jsonl")

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
"""Line number (from 1) and fields."""


def read_lines(path: Path, latin1: bool = False) -> list[str]:
    r"""Read the lines of a UTF-8 text file, without line ends.

    Only ``\n`` and ``\r\n`` end a line, since characters such as U+2028 occur inside sentences.

    Args:
        path: Path of the file.
        latin1: Whether to read a file that is not UTF-8 as Latin-1, the encoding of some old releases.

    Raises:
        DataError: The file is missing or empty, or a line is not UTF-8 or contains a NUL character.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror}).", path) from error
    raw = raw.removeprefix(BOM_UTF8)
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
    """Read the named columns of a CSV, TSV or JSONL file; the suffix determines the format.

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
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise DataError(f"unknown file format; expected a name that ends in {', '.join(SUFFIXES)}.", path)
    hint = None if setting is None else f"Give the names of the columns with {setting}."
    if suffix == ".jsonl":
        rows = _read_jsonl(path, columns, numbers, hint, bad)
    else:
        rows = _read_table(path, columns, numbers, hint, bad)
    empty = True
    controls: list[int] = []
    for number, fields in rows:
        empty = False
        controls += [number for field in fields if not field.isascii() and _CONTROL.search(field)]
        yield number, fields
    if empty:
        bad.check()
        raise DataError("the file has a header but no rows.", path)
    if controls:
        log.warning(
            "WARNING: %s: %s, the first in line %d, with control characters (U+0080 to U+009F): mostly "
            "Windows-1252 that was read as Latin-1, which loses euro signs, quotation marks and dashes. "
            "Convert the original file: `iconv -f cp1252 -t utf-8 OLD > NEW`.",
            path,
            counted(len(controls), "text"),
            controls[0],
        )


def _read_table(
    path: Path, columns: list[str], numbers: Collection[str], hint: str | None, bad: BadRows
) -> Iterator[Row]:
    lines = strip_blank_end(read_lines(path))
    quoting = path.suffix.lower() == ".csv"
    named = _SEPARATOR_LINE.fullmatch(lines[0]) if quoting else None
    above = 0 if named is None else 1
    # The default limit of 131,072 characters is too low for long texts; no field is longer than the file.
    csv.field_size_limit(max(csv.field_size_limit(), sum(len(line) + 1 for line in lines)))

    def rows(separator: str) -> Iterator[Row]:
        if not quoting:
            yield from ((number, line.split(separator)) for number, line in enumerate(lines, start=1))
            return
        reader = csv.reader(iter(f"{line}\n" for line in lines[above:]), delimiter=separator, strict=True)
        try:
            yield from ((reader.line_num + above, fields) for fields in reader)
        except csv.Error as error:
            raise DataError(f"not valid CSV ({error}).", path, reader.line_num + above) from error

    firsts: dict[str, list[str]] = {}
    if len(lines) == above:
        raise DataError("the file has no header and no rows.", path)
    for separator in named[1] if named else SEPARATORS if quoting else "\t":
        with suppress(DataError):  # quoted as in CSV with another separator
            firsts[separator] = next(rows(separator))[1]
    if not firsts:
        next(rows(","))  # raises
    separator, header = _find_header(path, above + 1, columns, numbers, hint, firsts)
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


def _find_header(
    path: Path,
    line: int,
    columns: list[str],
    numbers: Collection[str],
    hint: str | None,
    firsts: dict[str, list[str]],
) -> tuple[str, list[str] | None]:
    """Return the separator of a file and its header, None if the first line is a row of these columns.

    Args:
        path: Path of the file.
        line: Number of its first line, below one that names the separator.
        columns: Names of the columns that are wanted.
        numbers: Those that hold numbers.
        hint: How the user names the columns, for errors.
        firsts: Fields of the first line by separator.

    Raises:
        DataError: A column is missing.
    """
    for separator, fields in firsts.items():
        if set(columns) <= set(fields):
            return separator, fields
    wanted = [name in numbers for name in columns]
    rows = [separator for separator, fields in firsts.items() if _kinds(fields) == wanted]
    if rows and True in wanted and False in wanted:
        log.info(
            "%s: line %d has no column names; the columns are taken for %s", path, line, ", ".join(columns)
        )
        return rows[-1], None  # "Yes, sir.;No;0,5" has three fields by commas, too
    separator = max(reversed(firsts), key=lambda key: len(firsts[key]))
    header = firsts[separator]
    missing = [column for column in columns if column not in header]
    if len(header) < len(columns):
        known = "tabs" if path.suffix.lower() == ".tsv" else "commas, semicolons or tabs"
        other = "" if known == "tabs" else "; a first line such as sep=| names another character"
        hint = f"{hint or ''} Separate the columns by {known}{other}.".strip()
    elif missing == columns:
        names = f"the names of the {len(header)} columns, {_listed(columns)} among them,"
        hint = f"{hint or ''} If line {line} is data, add a line with {names} above it.".strip()
    raise DataError(
        f"no column named {', '.join(map(repr, missing))}; the file has {_listed(header)}.",
        path,
        line,
        hint=hint,
    )


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
        twice = [column for column in columns if header.count(column) > 1]
        if twice:
            raise DataError(f"the header has {', '.join(map(repr, twice))} more than once.", path, line)
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


def _read_jsonl(
    path: Path, columns: list[str], numbers: Collection[str], hint: str | None, bad: BadRows
) -> Iterator[Row]:
    for number, line in enumerate(strip_blank_end(read_lines(path)), start=1):
        try:
            record = parse_json(line)
        except ValueError as error:  # malformed, a key that occurs twice, an integer of thousands of digits
            reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            raise DataError(f"not valid JSON ({reason}).", path, number) from error
        if not isinstance(record, dict):
            raise DataError("expected a JSON object on each line.", path, number)
        missing = [column for column in columns if column not in record]
        if missing:
            raise DataError(
                f"no key {', '.join(map(repr, missing))}; the object has {_listed(record)}.",
                path,
                number,
                hint=hint,
            )
        with bad:
            yield number, [text_of(record[name], name, name in numbers, path, number) for name in columns]


def _listed(names: Collection[str]) -> str:
    """Return names for a message, of a line that may be anything."""
    text = ", ".join(map(repr, names))
    return text if len(text) <= 300 else f"{text[:297]}..."
