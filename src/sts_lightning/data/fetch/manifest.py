"""Record of what was fetched, beside the data: revisions, hashes and counts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sts_lightning.errors import DataError
from sts_lightning.files import write_atomic
from sts_lightning.strict_json import read_json

MANIFEST = "sources.json"

Count = Annotated[int, Field(ge=0)]


class Strict(BaseModel):
    """JSON without unknown keys, whose values are of the stated types."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class FetchedFile(Strict):
    """A file as it was downloaded.

    Attributes:
        source: Name of the source.
        place: Repository on the hub, or address.
        revision: Commit.
        file: Path in the repository.
        sha256: Hash of the content.
        size: Number of bytes.
    """

    source: str
    place: str
    revision: str
    file: str
    sha256: str
    size: Count


class Record(Strict):
    """What was fetched for a part of the data.

    Attributes:
        fetched: Date and time, UTC.
        downloads: Files that were downloaded.
        files: SHA-256 of each file that was written, by path below the data root.
        counts: Number of rows, by name.
        notes: What the conversion found, such as the form of the text or the number of dropped rows.
    """

    fetched: str
    downloads: list[FetchedFile]
    files: dict[str, str]
    counts: dict[str, Count]
    notes: dict[str, Any] = {}


class Manifest(Strict):
    """Contents of the file."""

    version: int = 1
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
        return Manifest.model_validate(read_json(path)).parts
    except (OSError, ValueError) as error:
        told = str(error)
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            told = f"{'.'.join(map(str, first['loc'])) or 'expected an object'}: {first['msg']}"
        raise DataError(
            f"cannot be read ({told}).", path, hint="Delete it; the files are then checked by their counts."
        ) from error


def write_record(root: Path, part: str, record: Record) -> None:
    """Add a record to those of a data root, or replace that of the same part."""
    manifest = Manifest(parts={**read_manifest(root), part: record})
    write_atomic(root / MANIFEST, manifest.model_dump_json(indent=1) + "\n")
