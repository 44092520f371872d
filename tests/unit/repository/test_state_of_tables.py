"""The page on the state of every table and figure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
import state_of_tables
from record_tables import Record, RecordedRun, Result, update_record
from state_of_tables import AGREES, NONE, PAPERS, PLANNED, Order, order_of, state_page

from sts_lightning.reproduce.spec import RUNS, TableSpec, compared_column, load_spec
from tests.conftest import CONF, ROOT
from tests.unit.repository.test_record_tables import record


@pytest.fixture(scope="module")
def page() -> str:
    return state_page(ROOT / "docs" / "results")


def cells(text: str, heading: str = "# Tables and figures") -> dict[str, Sequence[str]]:
    """Cells of each row of the table below a heading, by its first one."""
    rows = [
        line.strip("| ").split(" | ")
        for line in text.partition(heading)[2].partition("\n## ")[0].splitlines()
        if re.match(r"\| \w.*\d, |\| \w.*\d \|", line)
    ]
    return {row[0]: row for row in rows}


def test_every_table_and_figure_of_the_papers_occurs_once(page: str) -> None:
    names = re.findall(r"^\| ([^|]+, (?:Table|Figure) \d+) \|", page.partition("\n## ")[0], re.MULTILINE)
    expected = [
        f"{paper}, {kind} {number}"
        for paper, counts in PAPERS.items()
        for kind, count in zip(("Table", "Figure"), counts, strict=True)
        for number in range(1, count + 1)
    ]
    assert names == expected


def test_states_follow_from_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = load_spec(CONF / "reproduce" / "pcc_table3.yaml")
    monkeypatch.setattr(state_of_tables, "_tables", lambda: {"pcc_table3": spec})
    monkeypatch.setattr(state_of_tables, "OTHERS", {})

    def of(scores: Sequence[float], runs: int = 3) -> str:
        rows = zip(("stage 1", "+ contrastive", "+ Pearson"), scores, strict=True)
        results = [Result(row, "minilm", runs, 3, {"average": value}) for row, value in rows]
        (tmp_path / "a.json").unlink(missing_ok=True)
        update_record(tmp_path / "a.json", Record("pcc_table3", "minilm", "here.md", results))
        return cells(state_page(tmp_path))["Pcc-tuning, Table 3"][2]

    assert cells(state_page(tmp_path))["Pcc-tuning, Table 3"][2] == PLANNED
    assert (
        of((2.0, 1.0, 3.0))
        == f"{AGREES} (3 of 3 pairs by average; minilm, 9 of 9 runs; here.md, recorded as means only)"
    )
    assert (
        of((1.0, 2.0, 3.0))
        == f"{RUNS} (2 of 3 pairs by average; minilm, 9 of 9 runs; here.md, recorded as means only)"
    )
    assert of((2.0, 1.0, 3.0), runs=2).startswith(f"{RUNS} (3 of 3 pairs by average; minilm, 6 of 9 runs")
    assert of((2.0, 1.0, 3.0), runs=0) == PLANNED
    # one line for each model, the published ones first
    single = [RecordedRun(seed, {"average": 2.0}) for seed in (1, 2, 3)]
    results = [Result("stage 1", "mistral7b", 3, 3, {"average": 2.0}, single)]
    update_record(tmp_path / "b.json", Record("pcc_table3", None, "b.md", results))
    assert of((2.0, 1.0, 3.0)).split("<br>") == [
        f"{RUNS} (0 of 0 pairs by average; 3 of 3 runs; b.md)",
        f"{AGREES} (3 of 3 pairs by average; minilm, 9 of 9 runs; here.md, recorded as means only)",
    ]


def test_what_a_table_needs(page: str) -> None:
    """Read from the page by eye, against the specifications."""
    found = cells(page, "## What each needs")
    assert found["Pcc-tuning, Table 6"][3:] == [
        "5 runs, each 1 GPU with 24 GB, up to 6 h",
        "nli_triplets, sts, MTEB",
    ]
    assert found["Pcc-tuning v1, Table 6"][1] == "6 run, 2 cited"
    assert found["Rank reduction, Table 8"][4] == "sentences, STS tasks"
    assert "mistral7b (7 B)" in found["Pcc-tuning, Table 1"][2]


def test_every_published_table_says_what_it_mixes(page: str) -> None:
    listed = page.partition("## Whose settings each mixes")[2]
    found = {
        name: what
        for names, what in re.findall(r"^- (.+?): (.+)$", listed, re.MULTILINE)
        for name in names.split("; ")
    }
    assert "papers=code" in found["STS-Regression, Table 3"]
    assert "a guess" in found["Pcc-tuning v1, Table 5"]
    assert found["Pcc-tuning v1, Table 1"] == found["Pcc-tuning, Table 1"]  # the same runs
    assert "SentEval's rules" in found["Rank reduction, Figure 4"]
    tables = {name for name, row in cells(page).items() if "Table" in name and row[2] != NONE}
    assert tables <= {*found}


def two_models() -> TableSpec:
    """Both models put c above a; they differ on b."""
    spec = load_spec(CONF / "reproduce" / "pcc_table3.yaml")
    published = {"m1": {"a": [1.0], "b": [2.0], "c": [3.0]}, "m2": {"a": [2.0], "b": [1.0], "c": [3.0]}}
    return replace(spec, columns=["average"], published=published)


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
    assert order_of(two_models(), Record("toy", None, "by hand", results)) == Order(6, 6, True)


def test_published_scores_agree_with_themselves() -> None:
    for name in ("pcc_table2", "pcc_table6", "rank_table1", "rank_table3"):
        spec = load_spec(CONF / "reproduce" / f"{name}.yaml")
        results = [
            Result(row, model, 1, 1, dict(zip(spec.columns, values, strict=True)))
            for model, systems in spec.published.items()
            if model != "cited"
            for row, values in systems.items()
        ]
        found = order_of(spec, Record(name, None, "the paper", results))
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
