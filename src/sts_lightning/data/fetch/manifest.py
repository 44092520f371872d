"""Record of what was fetched, beside the data: revisions, hashes and counts."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge
from typing_extensions import TypedDict

from sts_lightning.errors import DataError
from sts_lightning.files import write_atomic
from sts_lightning.strict_json import read_json

MANIFEST = "sources.json"

Count = Annotated[int, Ge(0)]


@dataclass(frozen=True)
class FetchedFile:
    """A file as it was downloaded.

    Attributes:
        source: Name of the source.
        place: Repository on the hub, or address.
        revision: Commit.
        file: Path in the repository.
        sha256: Hash of the content.
        size: Number of bytes.
    """

    __pydantic_config__ = {"extra": "forbid"}

    source: str
    place: str
    revision: str
    file: str
    sha256: str
    size: Count


@dataclass(frozen=True)
class Record:
    """What was fetched for a part of the data.

    Attributes:
        fetched: Date and time, UTC.
        downloads: Files that were downloaded.
        files: SHA-256 of each file that was written, by path below the data root.
        counts: Number of rows, by name.
        notes: What the conversion found, such as the form of the text or the number of dropped rows.
    """

    __pydantic_config__ = {"extra": "forbid"}

    fetched: str
    downloads: list[FetchedFile]
    files: dict[str, str]
    counts: dict[str, Count]
    notes: dict[str, Any] = field(default_factory=dict)


class Contents(TypedDict):
    """Contents of the file, besides its version."""

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
    records = {**read_manifest(root), part: record}
    content = {"version": 1, "parts": {name: asdict(entry) for name, entry in records.items()}}
    write_atomic(root / MANIFEST, json.dumps(content, indent=1) + "\n")
