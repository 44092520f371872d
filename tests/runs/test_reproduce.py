"""A small table from specification to report, through the command line."""

from __future__ import annotations

import functools
import json
import logging
import queue
from dataclasses import dataclass
from logging.handlers import QueueHandler
from pathlib import Path

import pytest

from sts_lightning.reproduce.collect import collect
from sts_lightning.reproduce.plan import Cell, Table
from sts_lightning.reproduce.run import RunJobs, run_table
from sts_lightning.reproduce.spec import Preparation, Requirements, RowSpec, Search, TableSpec
from sts_lightning.reproduce.tables import markdown
from sts_lightning.runs.folder import RunFolder
from sts_lightning.sweep.gpu_pool import Pool
from sts_lightning.sweep.local import run_jobs
from tests.conftest import ROOT, SHORT_DATA

BASE = [*SHORT_DATA, "data.batch_size=16", "trainer.max_epochs=-1", "logger=csv", "trainer.val_every=4"]

HERE: RunJobs = functools.partial(run_jobs, pool=Pool([], cores=2, limit=2))


def make(folder: Path) -> Table:
    spec = TableSpec(
        title="Toy",
        needs=Requirements(hours=1),
        seeds=[1],
        models=["tiny_bert"],
        overrides=BASE,
        search=Search(
            {"low": ["optim.lr=1e-9"], "high": ["optim.lr=1e-3"]},
            ["trainer.max_steps=8", "evaluation.final=false"],
        ),
        before={
            "head": Preparation(
                ["experiment=regression_head", "data=toy", "data.kind=classes", "trainer.max_steps=4"]
            )
        },
        rows={
            "pearson": RowSpec(["loss=pearson", "trainer.max_steps=8"]),
            "mse": RowSpec(
                ["loss=mse", "trainer.init=final", "trainer.max_steps=8"], after="head", choice_of="pearson"
            ),
            "broken": RowSpec(["loss=infonce", "trainer.max_steps=8"], choice_of="pearson"),
            "after broken": RowSpec(
                ["loss=pearson", "trainer.max_steps=8"], after="broken", choice_of="pearson"
            ),
        },
        baselines=["mse"],
    )
    return Table(spec, folder)


@dataclass(frozen=True)
class Outcome:
    """The small table after its runs, and the messages that they logged."""

    table: Table
    messages: tuple[str, ...]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Run the small table once; each run is its own process."""
    table = make(tmp_path_factory.mktemp("table"))
    records: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    handler = QueueHandler(records)
    logger = logging.getLogger("sts_lightning")
    logger.addHandler(handler)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        assert not run_table(table, HERE)
    logger.removeHandler(handler)
    return Outcome(table, tuple(records.get().getMessage() for _ in range(records.qsize())))


@pytest.fixture
def table(outcome: Outcome) -> Table:
    return outcome.table


def cell(name: str) -> Cell:
    return Cell(name, "tiny_bert")


def test_the_best_on_dev_is_chosen(table: Table) -> None:
    scores = table.search_scores(cell("pearson"))
    assert list(scores) == ["low", "high"]
    chosen = table.chosen(cell("pearson"))
    assert chosen == max(scores, key=lambda value: scores[value])
    cfg = RunFolder(table.seed_runs(cell("pearson"))[0].folder).load_config()
    assert cfg.optim.lr == {"low": 1e-9, "high": 1e-3}[str(chosen)]


def test_a_row_starts_from_its_preparation(table: Table) -> None:
    cfg = RunFolder(table.seed_runs(cell("mse"))[0].folder).load_config()
    assert cfg.init_from == str(table.preparations()[0].folder)


def test_a_failed_run_is_named_and_the_others_continue(outcome: Outcome) -> None:
    table, messages = outcome.table, outcome.messages
    (first, *_) = table.seed_runs(cell("broken"))
    assert "InfoNCELoss needs" in (first.folder / "output.log").read_text()
    assert any("failed: " in line and "loss=infonce" in line for line in messages)
    for run in table.seed_runs(cell("after broken")):
        assert not run.folder.exists()
        assert any(
            f"skipped: {' '.join(run.overrides)}, since {run.after} has not finished" in x for x in messages
        )
    text = markdown(collect(table, 20))
    assert "| broken | here | missing | missing | missing |  |  | 0 of 1 |" in text
    assert "| pearson | here |" in text


def test_report_is_of_the_runs(table: Table) -> None:
    text = markdown(collect(table, 20))
    scores = [
        json.loads(RunFolder(run.folder).metrics_file.read_text())["dev"]["spearman"]
        for run in table.seed_runs(cell("pearson"))
    ]
    assert f"| pearson | here | {scores[0]:.2f} |" in text
    assert "Difference to mse" in text
    assert f"| {table.chosen(cell('pearson'))} |\n" in text


def test_started_again_it_does_only_what_is_left(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    finished = sorted(table.root.glob("*/metrics.json"))
    before = [path.stat().st_mtime_ns for path in finished]
    again = make(table.root)
    del again.spec.rows["broken"], again.spec.rows["after broken"]
    again.cells = [cell("pearson"), cell("mse")]
    assert run_table(again, HERE)
    assert [path.stat().st_mtime_ns for path in finished] == before
    assert sorted(table.root.glob("*/metrics.json")) == finished
