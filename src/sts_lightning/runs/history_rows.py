"""The history of a run: one row for each logged step."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any


def read_history(path: Path) -> list[dict[str, Any]]:
    """Read the rows of a history file, without empty values; return no rows if there is no file."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        rows = [
            {name: float(value) for name, value in row.items() if value not in ("", None)}
            for row in csv.DictReader(file)
        ]
    return [{**row, "step": int(row["step"])} for row in rows if "step" in row]


def scores_before_and_at(
    history: list[dict[str, Any]], metric: str, step: int
) -> tuple[float | None, float | None]:
    """Return a metric before training (step 0) and at a step; None if the history lacks it.

    Both are measured in the same precision, so that they are comparable to the last digit.

    Args:
        history: Rows of `read_history`.
        metric: Name of the column.
        step: Optimiser step.
    """
    at = {row["step"]: row.get(metric) for row in history}
    return at.get(0), at.get(step)
