"""Tables of broken and healthy files, and the two checks of a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sts_lightning.core.errors import UserError

Reader = Callable[[Path, str, bytes], Any]
"""Writes a file of a name and a content in a folder, reads it, and returns what it has found."""


class Broken(NamedTuple):
    """A broken file.

    Attributes:
        reader: Name of its reader.
        name: Name of the file.
        content: Content of the file.
        line: Line that the error names, if it names one.
        named: Further text of the error.
    """

    reader: str
    name: str
    content: str | bytes
    line: int | None = None
    named: str = ""


Healthy = tuple[str, str, str | bytes, Any]
"""Reader, name and content of a file, and what is found in it."""


def label(row: Broken | Healthy) -> str:
    """Return the name of a row in the output of pytest."""
    return f"{row[0]} {row[1].rpartition('/')[2]}"


def put(path: Path, content: str | bytes) -> Path:
    """Write a file and return its path."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def check_broken(readers: Mapping[str, Reader], row: Broken, folder: Path) -> None:
    """Check that the error of a file names the file, its line and what is wrong."""
    content = row.content.encode() if isinstance(row.content, str) else row.content
    with pytest.raises(UserError) as caught:
        readers[row.reader](folder, row.name, content)
    place = row.name if row.line is None else f"{row.name}, line {row.line}: "
    assert place in str(caught.value)
    assert row.named in str(caught.value)
    assert len(str(caught.value)) < 1000


def check_healthy(readers: Mapping[str, Reader], row: Healthy, folder: Path) -> None:
    """Check what is found in a file."""
    reader, name, content, found = row
    assert readers[reader](folder, name, content.encode() if isinstance(content, str) else content) == found
