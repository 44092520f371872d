"""The manifest of a data root, which says what was fetched, and the state of each part of the data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from typing_extensions import TypedDict

from sts_lightning.core.errors import DataError
from sts_lightning.core.files import read_json, write_atomic
from sts_lightning.data.fetch.parts import PARTS, Part, data_path

MANIFEST = "sources.json"


class ManifestEntry(TypedDict):
    """What was fetched for a part of the data.

    Attributes:
        fetched: Date and time (UTC).
        downloads: Source, place, revision, path, hash and size of each downloaded file.
        files: SHA-256 of each file that was written, by path below the data root.
        rows: Number of rows.
        dropped: Number of rows that were dropped, as their text is empty.
    """

    fetched: str
    downloads: list[dict[str, Any]]
    files: dict[str, str]
    rows: int
    dropped: int


def read_manifest(root: Path) -> dict[str, ManifestEntry]:
    """Read the entries of a data root by part; none if nothing was fetched there.

    Raises:
        DataError: The file is malformed.
    """
    path = root / MANIFEST
    if not path.is_file():
        return {}
    try:
        parts: dict[str, ManifestEntry] = read_json(path, dict[str, dict[str, ManifestEntry]])["parts"]
    except (OSError, ValueError, KeyError) as error:
        hint = "Delete it; the files are then checked by their counts."
        raise DataError(f"cannot be read ({error}).", path, hint=hint) from error
    return parts


def write_entry(root: Path, part: str, entry: ManifestEntry) -> None:
    """Write the entry of a part into the manifest of a data root, in place of an earlier one."""
    contents = {"parts": {**read_manifest(root), part: entry}}
    write_atomic(root / MANIFEST, json.dumps(contents, indent=1) + "\n")


State = Literal["complete", "missing", "incomplete", "other data", "unreadable"]
"""``other data``: files that the recipes read, but with other counts than published."""


@dataclass(frozen=True)
class Stock:
    """State of a part in a data root.

    Attributes:
        part: Part of the data.
        state: Whether it is complete.
        rows: Number of rows; None if they cannot be counted.
        note: Difference from the published data; empty if there is none.
    """

    part: Part
    state: State
    rows: int | None
    note: str = ""


def take_stock(root: Path, manifest: Mapping[str, ManifestEntry]) -> list[Stock]:
    """Return the state of each part in a data root."""
    return [stock_of(part, root, manifest.get(part.name)) for part in PARTS.values()]


def stock_of(part: Part, root: Path, entry: ManifestEntry | None) -> Stock:
    """Return the state of a part in a data root."""
    present = [name for name in part.files if data_path(root, name).is_file()]
    if not present:
        other = next((name for name in part.instead if data_path(root, name).is_file()), None)
        if other is None:
            return Stock(part, "missing", 0)
        return Stock(part, "other data", None, f"{other} is read instead")
    if len(present) < len(part.files):
        missing = next(name for name in part.files if name not in present)
        note = f"{len(present)} of {len(part.files)} files; {missing} is missing"
        return Stock(part, "incomplete", None, note)
    try:
        rows = part.count(root)
    except DataError as error:
        return Stock(part, "unreadable", None, str(error))
    # Rows with empty texts were dropped when it was fetched, so its number may be lower than published.
    as_fetched = entry is not None and entry["rows"] == rows
    difference = "" if as_fetched else part.difference(rows)
    return Stock(part, "other data" if difference else "complete", rows, difference)
