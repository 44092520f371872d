"""The history of a run: one row for each logged step."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
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
            reader = csv.DictReader(file, strict=True)
            _check_columns(reader.fieldnames or ["step"])
            for fields in reader:
                number = reader.line_num
                rows.append(_row(fields))
    except (OSError, ValueError, OverflowError, csv.Error) as error:
        if isinstance(error, csv.Error):
            number = reader.reader.line_num
        raise CheckpointError(f"{path}, line {number}: cannot be read ({error}).") from error
    return rows


def _check_columns(columns: Sequence[str]) -> None:
    if "step" not in columns:
        raise ValueError("no column step")
    if len(set(columns)) < len(columns):
        raise ValueError("two columns have the same name")


def _row(fields: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the values of a row, without empty ones, which are those that were not measured."""
    if None in fields:
        raise ValueError("more values than columns")
    if None in fields.values():
        raise ValueError("fewer values than columns")
    row = {name: _number(value) for name, value in fields.items() if value}
    step = row.get("step", math.nan)
    if not (step >= 0 and step.is_integer()):
        raise ValueError(f"the step is {fields['step']!r}")
    return {**row, "step": int(step)}


def _number(text: str) -> float:
    if "_" in text or not text.isascii():  # float reads 1_0 and the digits of other scripts
        raise ValueError(f"{text!r} is not a number")
    return float(text)


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
