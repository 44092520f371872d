"""A collected table as grids of text."""

from __future__ import annotations

import csv
import io
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from sts_lightning.reproduce.collect import collect
from sts_lightning.reproduce.formats import csv_text, latex, markdown
from sts_lightning.reproduce.grids import grids
from sts_lightning.reproduce.plan import Table
from tests.reproduce.conftest import lines, spec


def test_published_stands_next_to_ours(table: Table, scores: dict[str, list[float]]) -> None:
    text = markdown(collect(table, 50))
    published, ours = lines(text, "plain")[:2]
    mean, spread = statistics.mean(scores["plain"]), statistics.stdev(scores["plain"])
    assert published[:4] == ["plain", "published", "80.00", "80.50"]
    assert ours[:5] == ["plain", "here", f"{mean:.2f}", f"{mean:.2f}", f"{spread:.2f}"]
    assert ours[-4:] == ["3 of 3", "STS-B dev", "unknown", "runs"]
    assert lines(text, "closed")[0][:4] == ["closed", "published", "60.00", "60.50"]
    assert len(lines(text, "closed")) == 1
    assert (published[-1], lines(text, "closed")[0][-1]) == ("runs", "cited")
    assert "- Cited, not run: closed (a service)." in text


def test_missing_rows_are_missing_and_never_zero(table: Table, scores: dict[str, list[float]]) -> None:
    collected = collect(table, 50)
    assert lines(markdown(collected), "absent")[1][1:4] == ["here", "missing", "missing"]
    assert "0.00" not in [cell for row in lines(markdown(collected), "absent") for cell in row]
    assert "absent & here & missing & missing" in latex(collected)
    row = next(
        row
        for row in csv.DictReader(io.StringIO(csv_text(collected)))
        if row["source"] == "here" and row["system"] == "absent"
    )
    assert (row["value"], row["runs"], row["planned"]) == ("", "0", "3")


def test_nothing_finished_yet(table: Table) -> None:
    text = markdown(collect(table, 50))
    assert lines(text, "plain")[1][1:4] == ["here", "missing", "missing"]
    assert "binary ceiling" not in text


@pytest.mark.slow
def test_a_smaller_scale_says_so(tmp_path: Path) -> None:
    from sts_lightning.reproduce.spec import Scale

    text = markdown(collect(Table(spec(), tmp_path, "tiny_bert", Scale(hours=1)), 50))
    assert "at the scale of tiny_bert, with shorter schedules: not the published models" in text


@pytest.mark.slow
def test_published_scores_of_another_model_have_their_own_table(tmp_path: Path) -> None:
    from sts_lightning.reproduce.spec import Scale

    collected = collect(Table(spec(), tmp_path, "tiny_bert", Scale(hours=1)), 50)
    scores, published = (next(g for g in grids(collected) if words in g.title) for words in ("Toy", "Publ"))
    assert [row[:2] for row in scores.rows if row[0] != "closed"] == [
        [name, "here"] for name in ("plain", "a|b_c", "absent")
    ]
    assert published.title == "Published scores of other models"
    assert published.rows == [
        ["minilm", "plain", "80.00", "80.50"],
        ["minilm", "absent", "70.00", "70.50"],
    ]
    sources = {
        row["source"]
        for row in csv.DictReader(io.StringIO(csv_text(collected)))
        if row["system"] in ("plain", "absent")
    }
    assert sources == {"here", "published, minilm"}


@pytest.mark.slow
def test_a_row_that_names_its_model_has_its_published_scores(tmp_path: Path) -> None:
    toy = spec()
    rows = {**toy.rows, "plain": replace(toy.rows["plain"], model="tiny_bert")}
    by_name = {
        system.name: system for system in collect(Table(replace(toy, rows=rows), tmp_path), 50).systems
    }
    assert by_name["plain"].published == {"minilm": {"STSB": 80.0, "average": 80.5}}
    assert by_name["plain"].elsewhere == {}
