"""What metrics.json says about the data, with a stand-in for the published number."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from sts_lightning.data.data_set import DataSet
from sts_lightning.runs.folder import RunFolder
from sts_lightning.testing.toy import toy
from tests.support.run_entries import SHORT, composed, train_py

ROWS = 40


@pytest.fixture(autouse=True)
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a paper had used 40 toy triplets and said nothing of other kinds."""

    def of_paper(*args: Any, **settings: Any) -> DataSet:
        data = toy(*args, **settings)
        return replace(data, published_rows=ROWS if data.unit == "triplets" else None)

    monkeypatch.setattr("sts_lightning.testing.toy.toy", wraps(toy)(of_paper))


def stored(run: Path) -> Any:
    return json.loads((run / "metrics.json").read_text())["trained_on"]


def triplets(run: Path, rows: int) -> None:
    train_py(run, *SHORT, "loss=infonce", "data.kind=triplets", f"data.train_size={rows}")


@pytest.fixture
def first(tmp_path: Path) -> Path:
    triplets(tmp_path / "first", 32)
    return tmp_path / "first"


def test_every_stage_is_stated(first: Path, tmp_path: Path) -> None:
    one = {"source": "toy triplets", "unit": "triplets", "rows": 32, "published": ROWS, "dropped": {}}
    assert stored(first) == [one]
    train_py(tmp_path / "second", *SHORT, f"init_from={first}")
    two = {"source": "toy pairs", "unit": "pairs", "rows": 32, "published": None, "dropped": {}}
    assert stored(tmp_path / "second") == [one, two]
    assert list(map(str, RunFolder(tmp_path / "second").known_metrics().trained_on)) == [
        "32 of 40 triplets",
        "32 pairs (toy pairs)",
    ]


def test_the_published_number_is_not_remarked_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for rows in (32, ROWS):
        caplog.clear()
        with caplog.at_level("INFO", logger="sts_lightning"):
            triplets(tmp_path / str(rows), rows)
        differs = "on other data than published: 32 of 40 triplets" in caplog.text
        assert differs == (rows != ROWS)


def test_an_earlier_run_that_does_not_say(first: Path, tmp_path: Path) -> None:
    values = json.loads((first / "metrics.json").read_text())
    del values["trained_on"]
    (first / "metrics.json").write_text(json.dumps(values))
    assert RunFolder(first).metrics().trained_on == (None,)
    train_py(tmp_path / "second", *SHORT, f"init_from={first}")
    assert [stage and stage["unit"] for stage in stored(tmp_path / "second")] == [None, "pairs"]


def test_an_evaluation_states_the_data_of_its_run(first: Path, tmp_path: Path) -> None:
    from sts_lightning.workflows.evaluate import evaluate_in

    folder = tmp_path / "data" / "senteval" / "STS" / "STSBenchmark"
    folder.mkdir(parents=True)
    lines = [f"main\tx\t2020\t{i}\t{i % 5}.0\tword {i}\tword {i % 3}\n" for i in range(10)]
    (folder / "sts-test.csv").write_text("".join(lines))
    (folder.parents[1] / "counts.json").write_text("{}")
    settings = ["accelerator=cpu", f"data_root={tmp_path / 'data'}", "tasks=[STSB]"]
    for name, model, expected in (
        ("tuned", f"ckpt={first}", ["32 of 40 triplets"]),
        ("untuned", "model=tiny_bert", []),
    ):
        with composed("eval", *settings, model, output=tmp_path / name) as cfg:
            evaluate_in(tmp_path / name, cfg)
        assert list(map(str, RunFolder(tmp_path / name).known_metrics().trained_on)) == expected
    metrics = [
        RunFolder(path).metrics().details for path in (first, tmp_path / "tuned", tmp_path / "untuned")
    ]
    trained, tuned, untuned = (
        (found["training"], found.get("seed"), found["quantization"]) for found in metrics
    )
    assert trained == tuned
    assert trained[0]["precision"] == "32-true"
    assert untuned == (None, None, "none")
