"""Records of tables, and the order of their rows against the published one."""

from __future__ import annotations

import statistics
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from sts_lightning.errors import DataError
from sts_lightning.reproduce.collect import collect
from sts_lightning.reproduce.plan import Table
from sts_lightning.reproduce.record import (
    Order,
    Record,
    Result,
    order_of,
    read_record,
    record_of,
    update_record,
    write_record,
)
from sts_lightning.reproduce.spec import TableSpec, compared_column, load_spec
from tests.conftest import CONF


def record(scores: dict[str, float], model: str = "minilm", runs: int = 3) -> Record:
    results = [Result(row, model, runs, 3, {"average": value}) for row, value in scores.items()]
    return Record("toy", model, [], "by hand", results)


def two_models() -> TableSpec:
    """Both models put c above a; they differ on b."""
    spec = load_spec(CONF / "reproduce" / "pcc_table3.yaml")
    published = {"m1": {"a": [1.0], "b": [2.0], "c": [3.0]}, "m2": {"a": [2.0], "b": [1.0], "c": [3.0]}}
    return replace(spec, columns=["average"], published=published)


def test_a_record_holds_the_scores_of_the_table(
    table: Table, scores: dict[str, list[float]], tmp_path: Path
) -> None:
    path = tmp_path / "toy.json"
    write_record(path, record_of(collect(table, 20), "toy", ["precision=32-true"]))
    found = read_record(path)
    assert (found.table, found.model, found.evaluate) == ("toy", None, ["precision=32-true"])
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
    path.write_text("{")
    update_record(path, record({"a": 5.0}))
    assert read_record(path) == record({"a": 5.0})


def test_rows_of_other_settings_are_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "toy.json"
    update_record(path, replace(record({"a": 80.0, "b": 70.0}), evaluate=["precision=32-true"]))
    later = replace(record({"a": 50.0, "b": 40.0}, runs=1), evaluate=["quantization=nf4"])
    update_record(path, later)
    assert read_record(path) == later


@pytest.mark.parametrize("text", ["{", "[]", '{"table": "x"}', '{"results": [{"row": 1, "colour": 2}]}'])
def test_a_broken_record_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(DataError) as error:
        read_record(path)
    assert error.value.path == path


@pytest.mark.parametrize(
    ("scores", "order"),
    [
        ({"a": 5.0, "b": 1.0, "c": 6.0}, Order(2, 2, True)),
        ({"a": 5.0, "b": 5.5, "c": 4.0}, Order(0, 2, True)),
        ({"a": 5.0, "b": 1.0, "c": 5.0}, Order(1, 2, True)),  # equal scores are in no order
        ({"a": 5.0, "c": 6.0}, Order(1, 1, False)),
        ({}, Order(0, 0, False)),
    ],
)
def test_rows_are_compared_where_the_published_models_agree(scores: dict[str, float], order: Order) -> None:
    assert order_of(two_models(), record(scores)) == order


def test_all_runs_and_all_pairs_are_needed_to_agree() -> None:
    right = {"a": 5.0, "b": 1.0, "c": 6.0}
    assert order_of(two_models(), record(right)).agrees
    assert not order_of(two_models(), record(right, runs=2)).agrees
    assert not order_of(two_models(), record({**right, "a": 7.0})).agrees


def test_each_model_is_compared_with_its_own_published_scores() -> None:
    results = [
        Result(row, model, 3, 3, {"average": value})
        for model, values in {"m1": (1.0, 2.0, 3.0), "m2": (2.0, 1.0, 3.0)}.items()
        for row, value in zip("abc", values, strict=True)
    ]
    assert order_of(two_models(), Record("toy", None, [], "by hand", results)) == Order(6, 6, True)


def test_published_scores_agree_with_themselves() -> None:
    for name in ("pcc_table2", "pcc_table6", "rank_table1", "rank_table3"):
        spec = load_spec(CONF / "reproduce" / f"{name}.yaml")
        results = [
            Result(row, model, 1, 1, dict(zip(spec.columns, values, strict=True)))
            for model, systems in spec.published.items()
            if model != "cited"
            for row, values in systems.items()
        ]
        found = order_of(spec, Record(name, None, [], "the paper", results))
        pairs = sum(
            len(list(combinations(systems, 2)))
            for model, systems in spec.published.items()
            if model != "cited"
        )
        assert found.agreeing == found.pairs
        assert found.complete
        assert pairs - 2 <= found.pairs <= pairs  # but for ties


def test_the_compared_column() -> None:
    names = {"pcc_table2": "average", "rank_table1": "dev", "rank_table3": "std", "pcc_table6": None}
    for name, column in names.items():
        assert compared_column(load_spec(CONF / "reproduce" / f"{name}.yaml").columns) == column
