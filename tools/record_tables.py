"""Keep the scores of finished runs in docs/results: python tools/record_tables.py pcc_table3 --model minilm.

Run folders are not in the repository. Rows of which a record has more finished runs stay as they are; remove
the file to record a table from the beginning.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from sts_lightning.core.errors import DataError
from sts_lightning.core.files import read_json, write_atomic
from sts_lightning.reproduce.collect import Collected, collect
from sts_lightning.reproduce.plan import open_table

RECORDS = Path(__file__).resolve().parents[1] / "docs" / "results"


@dataclass(frozen=True)
class Result:
    """Scores of one row with one model.

    Attributes:
        row: Name of the row.
        model: Choice of the group model; None if the row's overrides contain it.
        runs: Number of finished runs.
        planned: Number of planned runs.
        scores: Mean of each column over the runs.
    """

    row: str
    model: str | None
    runs: int
    planned: int
    scores: dict[str, float]


@dataclass(frozen=True)
class Record:
    """Scores of a table.

    Attributes:
        table: Name of its specification.
        model: Model at whose scale the rows ran; None for the published models.
        source: What the scores were read from.
        results: Scores of the rows.
    """

    table: str
    model: str | None
    source: str
    results: list[Result]


def record_of(collected: Collected, table: str) -> Record:
    """Return the record of a collected table.

    Args:
        collected: Collected table.
        table: Name of its specification.
    """
    results = []
    for system in collected.systems:
        if (cell := system.cell) is not None:
            means = {column: system.mean(column) for column in collected.columns}
            scores = {column: round(value, 4) for column, value in means.items() if value is not None}
            results.append(Result(cell.row, cell.model, len(system.scores), system.planned, scores))
    return Record(table, collected.table.model, "the run folders", results)


def read_record(path: Path) -> Record:
    """Read a record.

    Raises:
        DataError: The file is broken.
    """
    try:
        record: Record = read_json(path, Record)
    except (OSError, ValueError) as error:
        raise DataError(f"not the record of a table ({error}).", path) from error
    return record


def update_record(path: Path, record: Record) -> None:
    """Write a record, but keep the rows of which the record there has more finished runs."""
    if path.is_file():
        known = {(result.row, result.model): result for result in read_record(path).results}
        results = []
        for result in record.results:
            former = known.get((result.row, result.model), result)
            more = former.planned == result.planned and former.runs > result.runs
            results.append(former if more else result)
        record = dataclasses.replace(record, results=results)
    write_atomic(path, json.dumps(dataclasses.asdict(record), indent=1) + "\n")


def main() -> None:
    """Record one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", help="a file of conf/reproduce")
    parser.add_argument("--model", help="a file of conf/reproduce/scale")
    parser.add_argument("--folder", type=Path, default=Path("runs/reproduce"), help="folder of the runs")
    options = parser.parse_args()
    collected = collect(open_table(options.table, options.model, options.folder), resamples=1)
    stem = options.table if options.model is None else f"{options.table}_{options.model}"
    update_record(RECORDS / f"{stem}.json", record_of(collected, options.table))


if __name__ == "__main__":
    main()
