"""The page of the state of all tables."""

from __future__ import annotations

import pytest
import state_of_tables
from state_of_tables import order_of, record_of, state_page

from sts_lightning.core.files import read_json
from sts_lightning.reproduce.table import Row, Table, TableSpec
from tests.conftest import ROOT
from tests.unit.reproduce.conftest import cosines as cosines
from tests.unit.reproduce.conftest import table as table


def test_pairs_of_rows_in_the_published_order() -> None:
    rows = {name: Row([]) for name in "abcd"}
    published = {"m": {"a": [1.0], "b": [2.0], "c": [3.0]}, "n": {"a": [1.0], "b": [5.0], "c": [4.0]}}
    spec = TableSpec("Toy", rows, models=["m", "n"], columns=["average"], published=published)
    results = [
        {"row": row, "model": "small", "scores": {"average": value}}
        for row, value in zip("abc", (1, 2, 1), strict=True)
    ]
    # both models have a below b and a below c; b and c they order differently
    assert order_of(spec, {"model": "small", "results": results}) == (1, 2)
    results = [{"row": row, "model": model, "scores": {"average": 1.0}} for row in "ab" for model in "mn"]
    results[2]["scores"] = {"average": 1.5}
    assert order_of(spec, {"model": None, "results": results}) == (1, 2)  # each model by itself


def test_a_record_holds_the_means(table: Table, cosines: object) -> None:
    record = record_of(table)
    by_row = {result["row"]: result for result in record["results"]}
    assert list(by_row) == ["plain", "a|b_c", "absent", "untuned"]
    assert (by_row["plain"]["runs"], by_row["plain"]["planned"]) == (2, 2)
    assert by_row["plain"]["scores"]["average"] == by_row["plain"]["scores"]["STSB"] > 0
    assert (by_row["absent"]["runs"], by_row["absent"]["scores"]) == (0, {})


def test_the_page_is_that_of_the_records() -> None:
    records = [read_json(path) for path in sorted(state_of_tables.RECORDS.glob("*.json"))]
    page = state_page(records)
    assert (ROOT / "docs" / "reproduction.md").read_text() == page, "make docs-reproduction writes it again"
    for paper, tables, figures in (("Pcc-tuning", 8, 2), ("STS-Regression", 7, 3), ("Rank reduction", 8, 7)):
        numbers = [f"Table {n}" for n in range(1, tables + 1)] + [
            f"Figure {n}" for n in range(1, figures + 1)
        ]
        assert [page.count(f"\n| {paper}, {number} | ") >= 1 for number in numbers] == [True] * len(numbers)


def test_intervals_of_kept_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = state_of_tables.interval_lines("stage2_minilm")
    assert line.startswith("stage2_minilm: 80.80 [80.")
    joint = list(state_of_tables.interval_lines("joint_minilm", "stage2_minilm"))
    assert joint[-1].endswith("; to stage2_minilm +2.76 [+2.46, +3.09]")  # docs/results.md
    assert next(state_of_tables.interval_lines("pcc_table3_minilm")).endswith("were not kept")
