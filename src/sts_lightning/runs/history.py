"""The history of a run: one row for each logged step."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from sts_lightning.core.errors import CheckpointError


def read_history(path: Path) -> list[dict[str, Any]]:
    """Read the rows of a history file, without empty values; return no rows if there is no file.

    A last row without an end was being written when the disk was full or the process was killed; it is left
    out.

    Raises:
        CheckpointError: The file cannot be read, or a row holds something else than numbers.
    """
    if not path.is_file():
        return []
    rows = []
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader((line for line in file if line[-1] in "\r\n"), strict=True)
        try:
            for values in reader:
                row = {name: float(value) for name, value in values.items() if value}
                rows.append({**row, "step": int(row["step"])})
        except (TypeError, ValueError, KeyError, csv.Error) as error:  # TypeError: more values than columns
            line = reader.reader.line_num or 1
            raise CheckpointError(f"{path}, line {line}: cannot be read ({error}).") from error
    return rows
