"""Record of what was fetched, beside the data: revisions, hashes and counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from sts_lightning.errors import DataError
from sts_lightning.files import write_atomic
from sts_lightning.strict_json import read_json

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
