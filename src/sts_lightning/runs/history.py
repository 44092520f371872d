"""The history of a run: one row for each logged step."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

from sts_lightning.core.errors import CheckpointError


def read_history(path: Path) -> list[dict[str, Any]]:
    """Read the rows of a history file, without empty values; return no rows if there is no file.

    Raises:
        CheckpointError: The file cannot be read, or a row holds something else than numbers and their step.
    """
    if not path.is_file():
        return []
    number, rows = 1, []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            names = next(reader, ["step"])
            if "step" not in names or len(set(names)) < len(names):
                raise ValueError("no column step, or two columns of one name")
            for values in filter(None, reader):
                number = reader.line_num
                if len(values) != len(names):
                    raise ValueError(f"{'more' if len(values) > len(names) else 'fewer'} values than columns")
                row = {name: float(value) for name, value in zip(names, values, strict=True) if value}
                step = row.get("step", math.nan)
                if not (step >= 0 and step.is_integer()):
                    raise ValueError(f"the step is {step}")
                rows.append({**row, "step": int(step)})
    except (OSError, ValueError, csv.Error) as error:
        number = max(number, reader.line_num) if isinstance(error, csv.Error) else number
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
