"""Lines of text files, plain or compressed, and the ends of file names."""

from __future__ import annotations

import gzip
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sts_lightning.core.errors import DataError


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


def numbered_lines(path: Path, latin1: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers, without blank ones at the end; see `read_lines`."""
    lines = read_lines(path, latin1)
    while lines and not lines[-1].strip(" \r"):
        lines.pop()
    return enumerate(lines, start=1)


def read_tsv(path: Path, columns: int) -> Iterator[tuple[int, list[str]]]:
    """Read the rows of a tab-separated file without quoting, the format of the STS releases.

    Args:
        path: Path of the file. Blank lines at the end are ignored.
        columns: Minimum number of fields of a row; surplus fields are kept.

    Raises:
        DataError: The file cannot be read (`read_lines`), or a row has too few fields.
    """
    for number, line in numbered_lines(path):
        fields = line.split("\t")
        if len(fields) < columns:
            raise DataError(
                f"expected at least {columns} tab-separated columns, found {len(fields)}.", path, number
            )
        yield number, fields
