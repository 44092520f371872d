"""Rows of text files, each with its line number, so that every error can name file and line."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sts_lightning.errors import DataError

Row = tuple[int, list[str]]
"""Line number (1-based) and fields."""


def read_lines(path: Path, latin1: bool = False) -> list[str]:
    r"""Read a UTF-8 text file as lines without their line ends.

    Only ``\n`` and ``\r\n`` end a line: characters such as U+2028 occur inside sentences.

    Args:
        path: The file.
        latin1: Whether a file that is not UTF-8 is Latin-1, as some old releases are.

    Raises:
        DataError: The file is missing or empty, or a line is not UTF-8.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror}).", path) from error
    if not raw.strip():
        raise DataError("the file is empty.", path)
    if latin1:
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError:
            raw = raw.decode("latin-1").encode("utf-8")
    lines = []
    for number, line in enumerate(raw.removesuffix(b"\n").split(b"\n"), start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"byte 0x{line[error.start]:02x} at column {error.start + 1} is not UTF-8; "
                "convert the file, for example with `iconv -f latin1 -t utf-8`.",
                path,
                number,
            ) from error
        lines.append(text.removesuffix("\r"))
    return lines


def read_tsv(path: Path, columns: int) -> Iterator[Row]:
    """Rows of a tab-separated file without quoting, as the STS releases are written.

    Args:
        path: The file.
        columns: How many fields a row must have at the least; surplus fields are kept.

    Raises:
        DataError: As `read_lines`, or a row has too few fields.
    """
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split("\t")
        if len(fields) < columns:
            raise DataError(
                f"expected at least {columns} tab-separated columns, found {len(fields)}.", path, number
            )
        yield number, fields


def read_records(path: Path, columns: list[str]) -> Iterator[Row]:
    """The named columns of a CSV, TSV or JSONL file; the suffix tells which.

    CSV is quoted as spreadsheets do it; TSV has no quoting; both start with a header line.

    Raises:
        DataError: Unknown suffix, a named column is missing, a row is malformed, or there is no row.
    """
    readers = {".csv": _read_csv, ".tsv": _read_headed_tsv, ".jsonl": _read_jsonl}
    if path.suffix.lower() not in readers:
        raise DataError(f"unknown kind of file; expected one that ends in {', '.join(readers)}.", path)
    count = 0
    for row in readers[path.suffix.lower()](path, columns):
        count += 1
        yield row
    if count == 0:
        raise DataError("the file has a header but no rows.", path)


def _read_csv(path: Path, columns: list[str]) -> Iterator[Row]:
    reader = csv.reader(iter(f"{line}\n" for line in read_lines(path)), strict=True)
    try:
        header = next(reader)
        yield from _select(path, columns, header, ((reader.line_num, fields) for fields in reader))
    except csv.Error as error:
        raise DataError(f"not valid CSV ({error}).", path, reader.line_num) from error


def _read_headed_tsv(path: Path, columns: list[str]) -> Iterator[Row]:
    lines = read_lines(path)
    rows = ((number, line.split("\t")) for number, line in enumerate(lines[1:], start=2))
    yield from _select(path, columns, lines[0].split("\t"), rows)


def _select(path: Path, columns: list[str], header: list[str], rows: Iterator[Row]) -> Iterator[Row]:
    missing = [column for column in columns if column not in header]
    if missing:
        raise DataError(
            f"no column named {', '.join(map(repr, missing))}; the file has {', '.join(map(repr, header))}.",
            path,
            1,
        )
    picks = [header.index(column) for column in columns]
    for number, fields in rows:
        if len(fields) != len(header):
            raise DataError(f"expected {len(header)} columns, found {len(fields)}.", path, number)
        yield number, [fields[pick] for pick in picks]


def _read_jsonl(path: Path, columns: list[str]) -> Iterator[Row]:
    for number, line in enumerate(read_lines(path), start=1):
        try:
            record: Any = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"not valid JSON ({error.msg}).", path, number) from error
        if not isinstance(record, dict):
            raise DataError("expected a JSON object on each line.", path, number)
        missing = [column for column in columns if column not in record]
        if missing:
            raise DataError(
                f"no key {', '.join(map(repr, missing))}; the object has {', '.join(map(repr, record))}.",
                path,
                number,
            )
        yield number, [_as_text(record[column]) for column in columns]


def _as_text(value: Any) -> str:
    """JSON null becomes an empty field, which the column's own check then refuses."""
    return "" if value is None else str(value)
