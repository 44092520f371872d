"""Which parts of the published data are in a data root, and which recipes need them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from sts_lightning.conf_folders import files_of
from sts_lightning.data.fetch.parts import NEEDS, PARTS, Part, place, try_count
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


def needed_by(part: str) -> tuple[list[str], list[str]]:
    """Return the choices of train.py and eval.py, and the experiments, that read a part.

    Args:
        part: Name of the part.
    """
    choices = [choice for choice, parts in NEEDS.items() if part in parts]
    experiments = [
        name
        for name, data in sorted(experiment_data().items())
        if any(f"data={choice}" in choices for choice in data)
    ]
    return choices, experiments


def experiment_data() -> dict[str, set[str]]:
    """Return the names of the data sets of each experiment."""
    files = files_of("experiment")
    contents = {name: yaml.safe_load(path.read_text(encoding="utf-8")) for name, path in files.items()}
    return {name: set(_data_of(name, contents)) for name in contents}


def _data_of(name: str, contents: Mapping[str, Any]) -> Iterator[str]:
    """Yield the data of an experiment: that of its stages, its own, or that of the one it builds on."""
    content = contents[name]
    stages = content.get("stages") or {}
    if stages:
        for stage in stages.values():
            yield from _data_of(stage["experiment"], contents)
        return
    chosen = "sts"  # of conf/train.yaml
    for default in content.get("defaults", []):
        if isinstance(default, str) and default in contents:
            (chosen,) = _data_of(default, contents)
        elif isinstance(default, dict):
            chosen = default.get("override /data", chosen)
    yield chosen
