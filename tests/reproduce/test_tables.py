"""A small table, from spec to Markdown, through the commands that users run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sts_lightning import runs
from sts_lightning.errors import CheckpointError, ConfigError
from sts_lightning.reproduce.jobs import Table, carry_out
from sts_lightning.reproduce.report import markdown
from sts_lightning.reproduce.spec import RowSpec, Search, TableSpec
from tests.conftest import ROOT, SHORT_RUN

BASE = [*SHORT_RUN, "data.batch_size=16", "trainer.max_epochs=-1", "logger=csv", "trainer.val_every=4"]


def spec() -> TableSpec:
    return TableSpec(
        title="Toy",
        seeds=[1, 2],
        overrides=BASE,
        search=Search(
            {"low": ["optim.lr=1e-9"], "high": ["optim.lr=1e-3"]},
            ["trainer.max_steps=8", "evaluation.final=false"],
        ),
        before={
            "head": ["experiment=regression_head", "data=toy", "data.kind=classes", "trainer.max_steps=4"]
        },
        rows={
            "pearson": RowSpec(["loss=pearson", "trainer.max_steps=8"]),
            "mse": RowSpec(["loss=mse", "init=final", "trainer.max_steps=8"], after="head", search=False),
        },
        baselines=["mse"],
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """All runs of the small table; each is a process of its own."""
    table = Table(spec(), tmp_path_factory.mktemp("table"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        assert carry_out(table.preparations(), 2) == []
        assert carry_out(table.searches(), 2) == []
        assert carry_out([job for name in table.spec.rows for job in table.seeds(name)], 2) == []
    return table


def test_the_best_on_dev_is_chosen(table: Table) -> None:
    scores = table.search_scores("pearson")
    assert list(scores) == ["low", "high"]
    assert table.chosen("pearson") == max(scores, key=lambda value: scores[value])
    assert table.chosen("mse") is None
    cfg = runs.load_config(table.seeds("pearson")[0].folder)
    assert cfg.optim.lr == {"low": 1e-9, "high": 1e-3}[str(table.chosen("pearson"))]


def test_a_row_starts_from_its_preparation(table: Table) -> None:
    cfg = runs.load_config(table.seeds("mse")[0].folder)
    assert cfg.init_from == str(table.folder / "before" / "head")


def test_report(table: Table) -> None:
    text = markdown(table, resamples=20)
    lines = [line for line in text.splitlines() if line.startswith("| pearson")]
    scores = [
        json.loads(runs.metrics_path(job.folder).read_text())["dev"]["spearman"]
        for job in table.seeds("pearson")
    ]
    assert lines[0].startswith(f"| pearson | {sum(scores) / 2:.2f} |")
    assert lines[0].endswith("| 2 of 2 |")
    assert "Difference to mse" in text
    assert lines[-1].endswith(f"| {table.chosen('pearson')} |")


def test_finished_runs_are_left_alone(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    jobs = table.seeds("mse")
    before = [runs.metrics_path(job.folder).stat().st_mtime_ns for job in jobs]
    assert carry_out(jobs, 2) == []
    assert [runs.metrics_path(job.folder).stat().st_mtime_ns for job in jobs] == before


def test_other_settings_do_not_take_over_a_folder(table: Table) -> None:
    changed = Table(spec(), table.folder)
    changed.spec.rows["mse"].overrides.append("optim.lr=1e-4")
    with pytest.raises(ConfigError, match="holds a run of other settings"):
        carry_out(changed.seeds("mse"), 1)


def test_missing_rows_show_as_missing(tmp_path: Path) -> None:
    text = markdown(Table(spec(), tmp_path))
    assert "| pearson | missing | missing | missing |" not in text  # no column is known yet
    assert "| pearson |  | 0 of 2 |" in text
    assert "| pearson | missing | missing |  |" in text  # the search


def test_a_failed_run_is_named_and_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    broken = spec()
    broken.rows = {
        "broken": RowSpec(["loss=infonce"], search=False),
        "fine": RowSpec(["trainer.max_steps=2"], search=False),
    }
    broken.seeds, broken.baselines = [1], []
    table = Table(broken, tmp_path)
    jobs = [job for name in broken.rows for job in table.seeds(name)]
    assert carry_out(jobs, 1) == [jobs[0]]
    assert "InfoNCELoss needs" in (jobs[0].folder / "output.log").read_text()
    text = markdown(table)
    assert "| broken | missing | missing | missing |  | 0 of 1 |" in text
    assert "| 1 of 1 |" in text


def test_a_foreign_folder_is_refused(tmp_path: Path) -> None:
    table = Table(spec(), tmp_path)
    (table.seeds("mse")[0].folder).mkdir(parents=True)
    with pytest.raises(CheckpointError, match=r"no readable command\.json; remove it"):
        carry_out(table.seeds("mse"), 1)


def test_command(tmp_path: Path) -> None:
    def call(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "sts_lightning.reproduce", *arguments],
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
        )

    missing = call("no_such_table")
    assert missing.returncode == 1
    assert "error: there is no table no_such_table; there are: " in missing.stderr
    elsewhere = call("losses_minilm", cwd=tmp_path)
    assert "run this in the project's folder" in elsewhere.stderr
    report = call("losses_minilm", "--report", "--folder", str(tmp_path / "absent"))
    assert report.returncode == 0
    assert "| pearson |" in report.stdout
