"""Which parts of the published data are in a data root, and what differs from the published ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sts_lightning.data.fetch.manifest import Record
from sts_lightning.data.fetch.parts import PARTS, Part, place, try_count

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
