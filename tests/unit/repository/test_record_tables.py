"""Records of tables."""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from record_tables import Record, Result, read_record, record_of, update_record

from sts_lightning.core.errors import DataError
from sts_lightning.reproduce.collect import collect
from sts_lightning.reproduce.plan import Table
from tests.unit.reproduce.conftest import scores as scores
from tests.unit.reproduce.conftest import table as table


def record(scores: dict[str, float], model: str = "minilm", runs: int = 3) -> Record:
    results = [Result(row, model, runs, 3, {"average": value}) for row, value in scores.items()]
    return Record("toy", model, "by hand", results)


def test_a_record_holds_the_scores_of_the_table(
    table: Table, scores: dict[str, list[float]], tmp_path: Path
) -> None:
    path = tmp_path / "toy.json"
    update_record(path, record_of(collect(table, 20), "toy"))
    found = read_record(path)
    assert (found.table, found.model) == ("toy", None)
    by_row = {result.row: result for result in found.results}
    assert list(by_row) == ["plain", "a|b_c", "absent"]
    assert by_row["plain"].scores["average"] == pytest.approx(statistics.mean(scores["plain"]), abs=1e-4)
    assert (by_row["absent"].runs, by_row["absent"].planned, by_row["absent"].scores) == (0, 3, {})


def test_a_row_keeps_runs_whose_folders_are_gone(tmp_path: Path) -> None:
    path = tmp_path / "toy.json"
    update_record(path, record({"a": 1.0, "b": 2.0}))
    fewer = record({"a": 9.0}, runs=1).results + record({"b": 3.0, "c": 4.0}).results
    update_record(path, replace(record({}), results=fewer))
    found = {result.row: (result.runs, result.scores["average"]) for result in read_record(path).results}
    assert found == {"a": (3, 1.0), "b": (3, 3.0), "c": (3, 4.0)}
    update_record(path, replace(record({}), results=[replace(fewer[0], planned=5)]))
    assert [result.runs for result in read_record(path).results] == [1]  # of another plan


@pytest.mark.parametrize("text", ["{", '{"table": "x"}'])
def test_a_broken_record_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(DataError) as error:
        read_record(path)
    assert error.value.path == path
