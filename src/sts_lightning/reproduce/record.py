"""Record of a collected table: the scores of its runs, kept in the repository while run folders are not."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from sts_lightning.errors import DataError
from sts_lightning.files import write_atomic
from sts_lightning.reproduce.spec import CITED, TableSpec, compared_column
from sts_lightning.strict_json import read_json

if TYPE_CHECKING:
    from sts_lightning.reproduce.collect import Collected


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

    __pydantic_config__ = {"extra": "forbid"}

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
        evaluate: Settings with which the trained rows were evaluated again.
        source: What the scores were read from.
        results: Scores of the rows.
    """

    __pydantic_config__ = {"extra": "forbid"}

    table: str
    model: str | None
    evaluate: list[str]
    source: str
    results: list[Result]


@dataclass(frozen=True)
class Order:
    """Agreement of the order of rows with the published one.

    Attributes:
        agreeing: Number of pairs of rows that are in the published order.
        pairs: Number of pairs that both have results and that all published models order alike.
        complete: Whether all published rows have all their runs.
    """

    agreeing: int
    pairs: int
    complete: bool

    @property
    def agrees(self) -> bool:
        """Whether every row has its runs, and every pair is in the published order."""
        return self.complete and self.agreeing == self.pairs > 0


def record_of(collected: Collected, table: str, evaluate: Sequence[str] = ()) -> Record:
    """Return the record of a collected table.

    Args:
        collected: Collected table.
        table: Name of its specification.
        evaluate: Settings with which the trained rows were evaluated again.
    """
    results = []
    for system in collected.systems:
        if system.cell is not None:
            means = {column: system.mean(column) for column in collected.columns}
            scores = {column: round(value, 4) for column, value in means.items() if value is not None}
            cell = system.cell
            results.append(Result(cell.row, cell.model, len(system.scores), system.planned, scores))
    return Record(table, collected.table.model, list(evaluate), "the run folders", results)


def write_record(path: Path, record: Record) -> None:
    """Write a record atomically, as JSON."""
    write_atomic(path, json.dumps(dataclasses.asdict(record), indent=1) + "\n")


def update_record(path: Path, record: Record) -> None:
    """Write a record, but keep the rows of which the record there has more finished runs.

    Their run folders may be gone. Remove the file to record a table from the beginning; a broken one is
    replaced, and so is one of other settings of the evaluation.
    """
    if path.is_file():
        with contextlib.suppress(DataError):
            record = _with_earlier(record, read_record(path))
    write_record(path, record)


def _with_earlier(record: Record, earlier: Record) -> Record:
    if earlier.evaluate != record.evaluate:
        return record
    known = {(result.row, result.model): result for result in earlier.results}
    results = []
    for result in record.results:
        former = known.get((result.row, result.model), result)
        more = former.planned == result.planned and former.runs > result.runs
        results.append(former if more else result)
    return dataclasses.replace(record, results=results)


def read_record(path: Path) -> Record:
    """Read a record.

    Raises:
        DataError: The file is broken.
    """
    try:
        record: Record = read_json(path, Record)
    except (OSError, ValueError) as error:
        raise DataError(
            f"not the record of a table ({error}).",
            path,
            hint="sts-lightning reproduce TABLE --record writes it again.",
        ) from error
    return record


def order_of(spec: TableSpec, record: Record) -> Order:
    """Compare the order of the rows with the published one.

    Two rows are compared if the published scores of every model that has both order them alike; scores here
    that are equal disagree.

    Args:
        spec: Specification of the table.
        record: Scores of its rows.
    """
    here = {(result.row, result.model): result for result in record.results}
    column = compared_column(spec.columns)
    complete = True
    signs: dict[tuple[str, str, str | None, str | None], set[int]] = {}
    for model, systems in spec.published.items():
        if model == CITED:
            continue
        found: dict[str, Result] = {}
        for row in systems:
            result = here.get((row, model)) or here.get((row, record.model)) or here.get((row, None))
            if result is None or result.runs < result.planned:
                complete = False
            if result is not None and _key(result.scores, spec.columns, column) is not None:
                found[row] = result
        for first, second in combinations(found, 2):
            published = [
                _key(dict(zip(spec.columns, systems[row], strict=True)), spec.columns, column)
                for row in (first, second)
            ]
            place = (first, second, found[first].model, found[second].model)
            signs.setdefault(place, set()).add(_sign(published[0], published[1]))
    agreeing = pairs = 0
    for (first, second, model1, model2), published_signs in signs.items():
        if len(published_signs) != 1 or 0 in published_signs:
            continue
        pairs += 1
        values = [
            _key(here[place].scores, spec.columns, column) for place in ((first, model1), (second, model2))
        ]
        agreeing += {_sign(values[0], values[1])} == published_signs
    return Order(agreeing, pairs, complete)


def _key(scores: dict[str, float], columns: Sequence[str], column: str | None) -> float | None:
    if column is not None:
        return scores.get(column)
    if any(name not in scores for name in columns):
        return None
    return sum(scores[name] for name in columns) / len(columns)


def _sign(first: float | None, second: float | None) -> int:
    assert first is not None
    assert second is not None
    return (first > second) - (first < second)
