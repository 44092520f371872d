"""Record of what was fetched, beside the data: revisions, hashes and counts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from typing_extensions import TypedDict

from sts_lightning.core.errors import DataError
from sts_lightning.core.files import write_atomic
from sts_lightning.core.json_files import read_json
from sts_lightning.data.fetch.parts import PARTS, Part, place, try_count

MANIFEST = "sources.json"


class Record(TypedDict):
    """What was fetched for a part of the data, and when (UTC).

    Attributes:
        fetched: Date and time.
        downloads: Source, place, revision, path, hash and size of each file that was downloaded.
        files: SHA-256 of each file that was written, by path below the data root.
        rows: Number of rows.
        dropped: Number of rows that were left out, as no reader takes them.
    """

    fetched: str
    downloads: list[dict[str, Any]]
    files: dict[str, str]
    rows: int
    dropped: int


class Contents(TypedDict):
    """Contents of the file."""

    parts: dict[str, Record]


def read_manifest(root: Path) -> dict[str, Record]:
    """Read the records of a data root by part; none if nothing was fetched there.

    Raises:
        DataError: The file is malformed.
    """
    path = root / MANIFEST
    if not path.is_file():
        return {}
    try:
        contents: Contents = read_json(path, Contents)
    except (OSError, ValueError) as error:
        raise DataError(
            f"cannot be read ({error}).", path, hint="Delete it; the files are then checked by their counts."
        ) from error
    return contents["parts"]


def write_record(root: Path, part: str, record: Record) -> None:
    """Add a record to those of a data root, or replace that of the same part."""
    content = {"parts": {**read_manifest(root), part: record}}
    write_atomic(root / MANIFEST, json.dumps(content, indent=1) + "\n")


State = Literal["complete", "missing", "incomplete", "other data", "unreadable"]
"""``other data``: files that the recipes read, but with other counts than published."""


@dataclass(frozen=True)
class Stock:
    """What is there of a part.

    Attributes:
        part: Part of the data.
        state: Whether it is complete.
        found: Number of rows, or None if they cannot be counted.
        note: What differs from the published data; empty if nothing does.
    """

    part: Part
    state: State
    found: int | None
    note: str = ""


def take_stock(root: Path, records: Mapping[str, Record]) -> list[Stock]:
    """Count what is there of each part.

    Args:
        root: Data root.
        records: Records of what was fetched, by part.
    """
    return [_stock(part, root, records.get(part.name)) for part in PARTS.values()]


def _stock(part: Part, root: Path, record: Record | None) -> Stock:
    present = [name for name in part.files if place(root, name).is_file()]
    if not present:
        other = next((name for name in part.instead if place(root, name).is_file()), None)
        if other is None:
            return Stock(part, "missing", 0)
        return Stock(part, "other data", None, f"{other} is read instead")
    if len(present) < len(part.files):
        missing = next(name for name in part.files if name not in present)
        note = f"{len(present)} of {len(part.files)} files; {missing} is missing"
        return Stock(part, "incomplete", None, note)
    rows = try_count(part, root)
    if isinstance(rows, str):
        return Stock(part, "unreadable", None, rows)
    fetched = record is not None and record["rows"] == rows
    difference = "" if fetched else part.difference(rows)
    return Stock(part, "other data" if difference else "complete", rows, difference)
