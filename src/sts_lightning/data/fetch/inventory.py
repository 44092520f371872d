"""Which parts of the published data are in a data root, and what differs from the published ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sts_lightning.data.fetch.parts import PARTS, Part, place, try_count
from sts_lightning.data.readers.text_files import read_lines
from sts_lightning.errors import DataError

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

    @property
    def published(self) -> int:
        """Published number of rows."""
        return sum(self.part.published.values())


def take_stock(root: Path, records: Mapping[str, Any]) -> list[Stock]:
    """Count what is there of each part.

    Args:
        root: Data root.
        records: Records of what was fetched, by part.
    """
    return [_stock(part, root, records) for part in PARTS.values()]


def _stock(part: Part, root: Path, records: Mapping[str, Any]) -> Stock:
    present = [name for name in part.files if place(root, name).is_file()]
    if not present:
        return _instead(part, root)
    if len(present) < len(part.files):
        missing = next(name for name in part.files if name not in present)
        note = f"{len(present)} of {len(part.files)} files; {missing} is missing"
        return Stock(part, "incomplete", None, note)
    counts = try_count(part, root)
    if isinstance(counts, str):
        return Stock(part, "unreadable", None, counts)
    record = records.get(part.name)
    fetched = record is not None and record.counts == counts
    differences = [] if fetched else part.differences(counts)
    return Stock(
        part, "other data" if differences else "complete", sum(counts.values()), "; ".join(differences[:3])
    )


def _instead(part: Part, root: Path) -> Stock:
    for name in part.instead:
        path = place(root, name)
        if path.is_file():
            try:
                count = len(read_lines(path)) - (path.suffix in (".csv", ".tsv"))
            except DataError as error:
                return Stock(part, "unreadable", None, str(error))
            return Stock(part, "other data", count, f"{name} is read instead")
    return Stock(part, "missing", 0)
