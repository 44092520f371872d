"""The history of a run: one row for each logged step."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from sts_lightning.errors import CheckpointError


def read_history(path: Path) -> list[dict[str, Any]]:
    """Read the rows of a history file, without empty values; return no rows if there is no file.

    Raises:
        CheckpointError: The file cannot be read, or a row holds something else than numbers and their step.
    """
    if not path.is_file():
        return []
    number = 1
    rows = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            if reader.fieldnames and "step" not in reader.fieldnames:
                raise ValueError("no column step")
            for fields in reader:
                number = reader.line_num
                if None in fields:
                    raise ValueError("more values than columns")
                row = {name: float(value) for name, value in fields.items() if value not in ("", None)}
                if "step" in row:
                    rows.append({**row, "step": int(row["step"])})
    except (OSError, ValueError, OverflowError, csv.Error) as error:
        raise CheckpointError(f"{path}, line {number}: cannot be read ({error}).") from error
    return rows


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
