"""What a table says about the data that its rows were trained on."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from sts_lightning.core.counts import TrainingCount
from sts_lightning.reproduce.collect import collect
from sts_lightning.reproduce.plan import Cell, Table, TableRun
from sts_lightning.reproduce.spec import Requirements, RowSpec, TableSpec
from sts_lightning.reproduce.tables import csv_text, latex, markdown

MARK = "on other data than published"
WHOLE = TrainingCount("a.csv", "pairs", 40, 40)
PART = TrainingCount("b.csv", "triplets", 15_000, 20_000, {"data.limit": 5_000})
OWN = TrainingCount("mine.csv", "pairs", 12)


def finish(run: TableRun, trained_on: Any) -> None:
    """Write the results of a run; ``trained_on`` is ... for one that does not state it."""
    run.folder.mkdir(parents=True)
    metrics = {"dev": {"spearman": 80.0}, "test": None}
    if trained_on is not ...:
        metrics["trained_on"] = [None if count is None else asdict(count) for count in trained_on]
    (run.folder / "metrics.json").write_text(json.dumps(metrics))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    rows = {
        "untuned": RowSpec(["suite=transfer"], trains=False),
        "first": RowSpec(["loss=cosent"]),
        "second": RowSpec(["loss=pearson"]),
    }
    spec = TableSpec(
        title="Toy", needs=Requirements(hours=1), seeds=[1, 2], models=["minilm"], columns=["dev"], rows=rows
    )
    return Table(spec, tmp_path)


def runs(table: Table, row: str) -> list[TableRun]:
    return table.seed_runs(Cell(row, "minilm"))


def stated(text: str) -> dict[str, str]:
    """The last cell but one of each row of a Markdown table."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return {row[0]: row[-2].strip() for row in rows if len(row) > 1}


def csv_rows(text: str) -> dict[str, tuple[str, str]]:
    return {
        row["system"]: (row["trained_on"], row["other_data"]) for row in csv.DictReader(io.StringIO(text))
    }


def test_published_data_is_stated_and_not_marked(table: Table) -> None:
    for run in runs(table, "first"):
        finish(run, [WHOLE])
    finish(runs(table, "second")[0], [OWN])
    collected = collect(table, 20)
    text = markdown(collected)
    assert stated(text)["first"] == "40 of 40 pairs"
    assert stated(text)["second"] == "12 pairs (mine.csv)"
    assert all(MARK not in form(collected).lower() for form in (markdown, latex, csv_text))
    assert csv_rows(csv_text(collected))["first"] == ("40 of 40 pairs", "no")


def test_other_data_is_marked_in_every_format(table: Table) -> None:
    for run in runs(table, "first"):
        finish(run, [PART])
    finish(runs(table, "second")[0], [WHOLE])
    collected = collect(table, 20)
    for form in (markdown, latex):
        assert f"Toy ({MARK})" in form(collected)
        assert "15,000 of 20,000 triplets" in form(collected)
    assert "first, 15,000 of 20,000 triplets (5,000 dropped: data.limit)." in markdown(collected)
    assert csv_rows(csv_text(collected)) == {
        "untuned": ("", ""),
        "first": ("15,000 of 20,000 triplets", "yes"),
        "second": ("40 of 40 pairs", "no"),
    }


def test_every_stage_and_every_seed_is_stated(table: Table) -> None:
    one, other = runs(table, "first")
    finish(one, [PART, WHOLE])
    finish(other, [WHOLE, OWN])
    assert stated(markdown(collect(table, 20)))["first"] == (
        "15,000 of 20,000 triplets, then 40 of 40 pairs / 40 of 40 pairs, then 12 pairs (mine.csv)"
    )


def test_unknown_data_is_not_told_as_published(table: Table) -> None:
    finish(runs(table, "untuned")[0], ...)
    finish(runs(table, "first")[0], ...)
    finish(runs(table, "second")[0], [None, WHOLE])
    collected = collect(table, 20)
    text = markdown(collected)
    assert stated(text) | {
        "untuned": "not trained",
        "first": "unknown",
        "second": "unknown, then 40 of 40 pairs",
    } == stated(text)
    assert MARK not in text
    assert {name: other for name, (_, other) in csv_rows(csv_text(collected)).items()} == {
        "untuned": "no",
        "first": "unknown",
        "second": "unknown",
    }


def test_counts_that_are_no_numbers_are_a_broken_file(table: Table) -> None:
    for run, wrong in zip(runs(table, "first"), ("many", None), strict=True):
        finish(run, [WHOLE])
        path = run.folder / "metrics.json"
        values = json.loads(path.read_text())
        values["trained_on"] = [{**values["trained_on"][0], "rows": wrong}]
        path.write_text(json.dumps(values))
    text = markdown(collect(table, 20))
    assert text.count("metrics.json is broken: trained_on.0.rows: Input should be a valid integer") == 2
    assert "0 of 2" in text
