"""A small table from its rows to the report, each run in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sts_lightning.core.errors import UserError
from sts_lightning.reproduce.run import reproduce
from sts_lightning.reproduce.table import Cell, Row, Table, TableSpec
from sts_lightning.runs.folder import RunFolder
from tests.conftest import ROOT, SHORT_DATA
from tests.unit.reproduce.conftest import lines

BASE = [*SHORT_DATA, "data.batch_size=16", "trainer.max_epochs=-1", "logger=csv", "trainer.val_every=4"]

HEAD = ["experiment=regression_head", "data=toy", "data.kind=classes", "trainer.max_steps=4"]


def make(folder: Path, *left_out: str) -> Table:
    rows = {
        "head": Row(HEAD, once=True, shown=False),
        "pearson": Row(["loss=pearson", "trainer.max_steps=8"]),
        "mse": Row(["loss=mse", "trainer.init=final", "trainer.max_steps=8", "init_from=row:head"]),
        "broken": Row(["loss=infonce", "trainer.max_steps=8"]),
        "after broken": Row(["loss=pearson", "trainer.max_steps=8", "init_from=row:broken"]),
    }
    rows = {name: row for name, row in rows.items() if name not in left_out}
    spec = TableSpec("Toy", rows, [1, 2], models=["tiny_bert"], overrides=BASE, baselines=["mse"])
    return Table("toy", spec, folder)


def of_row(table: Table, row: str) -> list[RunFolder]:
    jobs, _ = table.jobs()
    return [jobs[run].run_folder for run in table.runs(Cell(row, "tiny_bert"))]


def test_a_table(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(ROOT)
    table = make(tmp_path)
    with pytest.raises(UserError, match="some runs have not finished"):
        reproduce(table, "process", ["jobs=2"], 20)
    text = capsys.readouterr().out
    scores = [json.loads(run.metrics_file.read_text())["dev"]["spearman"] for run in of_row(table, "pearson")]
    assert lines(text, "pearson")[0][1:3] == ["here", f"{sum(scores) / 2:.2f}"]
    assert lines(text, "broken")[0][1:3] == ["here", "missing"]
    assert "Difference to mse" in text
    heads = {str(run.settings()["init_from"]) for run in of_row(table, "mse")}
    assert len(heads) == 1
    assert RunFolder(heads.pop()).settings()["optim"]["freeze"] == "encoder"
    for run in of_row(table, "broken"):
        assert "InfoNCELoss needs" in run.output_file.read_text()
    assert not any(run.finished for run in of_row(table, "after broken"))
    assert sum(message.startswith("not run: ") for message in caplog.messages) == 2

    finished = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/metrics.json")}
    reproduce(make(tmp_path, "broken", "after broken"), "process", [], 20)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/metrics.json")} == finished
