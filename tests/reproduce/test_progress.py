"""The page on the state of every table and figure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from sts_lightning.reproduce import progress
from sts_lightning.reproduce.papers import PAPERS
from sts_lightning.reproduce.progress import AGREES, PLANNED, state_page
from sts_lightning.reproduce.record import Record, Result, write_record
from sts_lightning.reproduce.spec import RUNS, load_spec
from tests.conftest import CONF, ROOT


@pytest.fixture(scope="module")
def page() -> str:
    return state_page(ROOT / "docs" / "results")


def cells(text: str) -> dict[str, Sequence[str]]:
    """Cells of each row by its first one."""
    rows = [
        line.strip("| ").split(" | ")
        for line in text.splitlines()
        if re.match(r"\| \w.*\d, |\| \w.*\d \|", line)
    ]
    return {row[0]: row for row in rows}


@pytest.mark.slow
def test_the_committed_page_is_the_generated_one(page: str) -> None:
    assert (ROOT / "docs" / "reproduction.md").read_text() == page, "make docs-reproduction writes it again"


def test_every_table_and_figure_of_the_papers_occurs_once(page: str) -> None:
    names = re.findall(r"^\| ([^|]+, (?:Table|Figure) \d+) \|", page, re.MULTILINE)
    expected = [
        f"{paper}, {kind} {number}"
        for paper, counts in PAPERS.items()
        for kind, count in zip(("Table", "Figure"), counts, strict=True)
        for number in range(1, count + 1)
    ]
    assert names == expected


def test_states_follow_from_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = load_spec(CONF / "reproduce" / "pcc_table3.yaml")
    monkeypatch.setattr(progress, "_tables", lambda: {"pcc_table3": spec})
    monkeypatch.setattr(progress, "OTHERS", {})

    def of(scores: Sequence[float], runs: int = 3) -> str:
        rows = zip(("stage 1", "+ contrastive", "+ Pearson"), scores, strict=True)
        results = [Result(row, "minilm", runs, 3, {"average": value}) for row, value in rows]
        write_record(tmp_path / "a.json", Record("pcc_table3", "minilm", [], "here.md", results))
        return cells(state_page(tmp_path))["Pcc-tuning, Table 3"][2]

    assert cells(state_page(tmp_path))["Pcc-tuning, Table 3"][2] == PLANNED
    assert of((2.0, 1.0, 3.0)) == f"{AGREES} (3 of 3 pairs by average; minilm, 9 of 9 runs; here.md)"
    assert of((1.0, 2.0, 3.0)) == f"{RUNS} (2 of 3 pairs by average; minilm, 9 of 9 runs; here.md)"
    assert of((2.0, 1.0, 3.0), runs=2).startswith(f"{RUNS} (3 of 3 pairs by average; minilm, 6 of 9 runs")
    assert of((2.0, 1.0, 3.0), runs=0) == PLANNED


def test_what_a_table_needs(page: str) -> None:
    """Read from the page by eye, against the specifications."""
    found = cells(page)
    assert found["Pcc-tuning, Table 6"][5:7] == [
        "3 runs, each 1 GPU with 24 GB, 5 h",
        "nli_triplets, sts, MTEB",
    ]
    assert found["Pcc-tuning v1, Table 6"][3] == "6 run, 2 cited"
    assert found["Rank reduction, Table 8"][6] == "sentences, STS tasks"
    assert "mistral7b (7 B)" in found["Pcc-tuning, Table 1"][4]
