"""What a table says about the settings of its runs."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from sts_lightning.reproduce.collect import (
    _settings,
    collect,
    selection_text,
)
from sts_lightning.reproduce.plan import Cell, Table
from sts_lightning.reproduce.spec import Requirements, RowSpec, TableSpec
from sts_lightning.reproduce.tables import csv_text, latex, markdown
from tests.unit.reproduce.conftest import finish

OLD = "text_edit=unknown, max_length=unknown, precision=unknown, quantization=unknown"
STATED = {
    "senteval_text": "prepared",
    "text_edit": "official",
    "max_length": None,
    "precision": "32-true",
    "quantization": "none",
    "training": {"max_length": 64, "precision": "bf16-mixed", "quantization": "4bit"},
}


def state(table: Table, row: str, version: str = "1.0") -> None:
    """Add what present versions record to the metrics of a row's runs."""
    for seed, run in enumerate(table.seed_runs(Cell(row, "minilm")), 1):
        path = run.run_folder.metrics_file
        path.write_text(
            json.dumps(
                {
                    **json.loads(path.read_text()),
                    **STATED,
                    "seed": seed,
                    "versions": {"sts-lightning": version},
                }
            )
        )


def test_a_table_names_the_settings_of_all_rows(table: Table, scores: dict[str, list[float]]) -> None:
    for row in ("plain", "a|b_c"):
        state(table, row)
    collected = collect(table, 50)
    text = markdown(collected)
    for form in (text, latex(collected).replace("\\_", "_")):
        assert (
            "Dev and test sentences: senteval_text=prepared, text_edit=official, max_length=no limit, "
            "precision=32-true, quantization=none." in form
        )
        assert "Training: max_length=64, precision=bf16-mixed, quantization=4bit." in form
        assert "Seeds: 1, 2, 3." in form
    rows = [row for row in csv.DictReader(io.StringIO(csv_text(collected))) if row["source"] == "here"]
    assert {(row["system"], row["seed"]) for row in rows} == {
        ("plain", "1 / 2 / 3"),
        ("a|b_c", "1 / 2 / 3"),
        ("absent", ""),
    }
    assert rows[0]["training"] == "max_length=64, precision=bf16-mixed, quantization=4bit"
    assert "quantization=none" in rows[0]["evaluation"]


def test_rows_that_differ_are_named(table: Table, scores: dict[str, list[float]]) -> None:
    state(table, "plain")
    text = markdown(collect(table, 50))
    assert f"quantization=none (plain), or {OLD} (a|b_c)" in text
    assert "Training, different between rows: max_length=64, precision=bf16-mixed, " in text
    assert "Seeds, different between rows: 1, 2, 3 (plain), or unknown (a|b_c)." in text


def test_several_versions_of_the_package_are_named(table: Table, scores: dict[str, list[float]]) -> None:
    state(table, "plain")
    state(table, "a|b_c")
    assert "Versions" not in markdown(collect(table, 50))
    state(table, "a|b_c", "1.1")
    collected = collect(table, 50)
    line = "Versions of sts-lightning, different between rows: 1.0 (plain), or 1.1 (a|b_c)."
    assert line in markdown(collected).replace("\\|", "|")
    assert line in latex(collected).replace("\\_", "_").replace("\\textbar{}", "|")
    rows = list(csv.DictReader(io.StringIO(csv_text(collected))))
    assert {row["system"]: row["version"] for row in rows if row["source"] == "here"} == {
        "plain": "1.0",
        "a|b_c": "1.1",
        "absent": "",
    }


def test_nothing_is_said_of_a_table_that_has_not_run(table: Table) -> None:
    assert "Seeds" not in markdown(collect(table, 50))
    assert "\\caption{Toy \\& \\textless{}others\\textgreater{}}" in latex(collect(table, 50))


@pytest.mark.parametrize(
    ("details", "texts"),
    [
        ({}, (OLD, "max_length=unknown, precision=unknown, quantization=unknown", "unknown")),
        (
            {
                "training": None,
                "senteval_text": None,
                "text_edit": "none",
                "max_length": None,
                "precision": "bf16-true",
                "quantization": "8bit",
            },
            (
                "text_edit=none, max_length=no limit, precision=bf16-true, quantization=8bit",
                "not trained",
                "not trained",
            ),
        ),
    ],
)
def test_in_words(details: dict[str, object], texts: tuple[str, str, str]) -> None:
    found = _settings(details)
    assert tuple(found[name] for name in ("evaluation", "training", "seed")) == texts


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (
            {"_target_": "sts_lightning.data.nli.nli_pairs", "dev_path": None},
            "STS-B dev without test pairs",
        ),
        ({"dev_path": "mine/dev.csv"}, "dev.csv"),
        ({"dev_split": "validation", "dev_fraction": 0.1}, "owner/name, validation"),
        ({"dev_path": None, "dev_fraction": 0.1}, "10 % of the training pairs"),
        ({"_target_": "sts_lightning.testing.toy.toy", "dev_size": 50}, "dev pairs of toy"),
    ],
)
def test_dev_pairs_in_words(data: dict[str, object], text: str) -> None:
    assert selection_text({"data": data, "dev": "stsb_clean", "path": "owner/name"}) == text


def test_an_evaluation_names_what_selected_the_weights(tmp_path: Path) -> None:
    rows = {
        "trained": RowSpec(["loss=cosent"]),
        "again": RowSpec(after="trained", trains=False),
        "untuned": RowSpec(trains=False),
    }
    spec = TableSpec(
        title="Toy", needs=Requirements(hours=1), seeds=[1], models=["minilm"], columns=["dev"], rows=rows
    )
    table = Table(spec, tmp_path)
    for row in rows:
        finish(table.seed_runs(Cell(row, "minilm"))[0], 1.0, 1)
    collected = collect(table, 20)
    assert [system.setting("selected") for system in collected.systems] == [
        ["STS-B dev"],
        ["STS-B dev"],
        ["not trained"],
    ]
    assert "Dev pairs that select the weights: STS-B dev." in markdown(collected)
