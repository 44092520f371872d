"""A collected table as text_tables of text."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

from sts_lightning.reproduce.collect import collect
from sts_lightning.reproduce.plan import Table
from sts_lightning.reproduce.tables import csv_text, markdown, text_tables
from tests.unit.reproduce.conftest import spec


def test_a_smaller_scale_says_so(tmp_path: Path) -> None:
    from sts_lightning.reproduce.spec import Scale

    text = markdown(collect(Table(spec(), tmp_path, "tiny_bert", Scale(hours=1)), 50))
    assert "at the scale of tiny_bert, with shorter schedules: not the published models" in text


def test_published_scores_of_another_model_name_it(tmp_path: Path) -> None:
    from sts_lightning.reproduce.spec import Scale

    collected = collect(Table(spec(), tmp_path, "tiny_bert", Scale(hours=1)), 50)
    (scores,) = text_tables(collected)
    assert [row[:4] for row in scores.rows if row[1] != "here"] == [
        ["plain", "published, minilm", "80.00", "80.50"],
        ["absent", "published, minilm", "70.00", "70.50"],
        ["closed", "published", "60.00", "60.50"],
    ]
    sources = {
        row["source"]
        for row in csv.DictReader(io.StringIO(csv_text(collected)))
        if row["system"] in ("plain", "absent")
    }
    assert sources == {"here", "published, minilm"}


def test_a_row_that_names_its_model_has_its_published_scores(tmp_path: Path) -> None:
    toy = spec()
    rows = {**toy.rows, "plain": replace(toy.rows["plain"], model="tiny_bert")}
    by_name = {
        system.name: system for system in collect(Table(replace(toy, rows=rows), tmp_path), 50).systems
    }
    assert by_name["plain"].published == {"minilm": {"STSB": 80.0, "average": 80.5}}
