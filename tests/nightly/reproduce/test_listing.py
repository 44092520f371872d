"""The lists of tables and of the runs of one."""

from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import DictConfig

from sts_lightning.core.errors import ConfigError
from sts_lightning.planning import plan
from sts_lightning.reproduce.plan import Cell, Table, open_table
from sts_lightning.reproduce.run import list_tables, print_plan, run_table
from sts_lightning.reproduce.spec import Requirements, RowSpec, Search
from tests.unit.reproduce.conftest import finish, spec


def cost(cfg: DictConfig, *_: object, seconds: float | None = None) -> plan.Plan:
    """Plan a run without its data and model."""
    size = cfg.data.batch_size
    return plan.Plan(plan.CARDS["h100"], 0, 0, 0, 0, size, False, 1, 1, seconds, ())


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans of unknown time."""
    monkeypatch.setattr(plan, "plan", cost)


@pytest.fixture
def table(tmp_path: Path, costs: None) -> Table:
    """Three rows with three runs each; those of the first have finished."""
    table = Table(spec(), tmp_path)
    for number, run in enumerate(table.seed_runs(Cell("plain", "minilm"))):
        finish(run, 2.0, number)
    return table


def test_the_plan_counts_what_is_left(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    print_plan(table, jobs=2, gpu=None)
    printed = capsys.readouterr().out
    assert (printed.count("\nnew "), printed.count("done ")) == (6, 3)
    assert "9 runs, 6 left; about 3.0 hours, 2 at a time. Each needs: no GPU." in printed


def test_the_plan_shows_once_what_the_runs_of_a_row_cost(
    table: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    print_plan(table, jobs=None, gpu="24GB")
    assert capsys.readouterr().out.count(", micro batch ") == 3


def test_hours_are_those_of_the_plan_or_else_of_each_kind_of_run(
    tmp_path: Path, costs: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = spec()
    planned.needs = Requirements(gpus=1, memory=24, hours=6, tuning=1.5)
    planned.rows = {
        "untuned": RowSpec([], trains=False),
        "stage 1": RowSpec(["experiment=pcc_stage1"]),
        "stage 2": RowSpec(["experiment=pcc_stage2"], after="stage 1"),
        "evaluated": RowSpec([], trains=False, after="stage 2"),
    }
    print_plan(Table(planned, tmp_path), jobs=1, gpu=None)
    # three seeds of each stage, four evaluations of at most 0.1 hours
    assert f"10 runs, 10 left; about {3 * 6 + 3 * 1.5 + 4 * 0.1:.1f} hours" in capsys.readouterr().out

    seconds = {"infonce": 7200.0, "pearson": 360.0}
    monkeypatch.setattr(
        plan, "plan", lambda cfg, *_: cost(cfg, seconds=seconds[cfg.loss._target_.split(".")[-2]])
    )
    print_plan(Table(planned, tmp_path), jobs=1, gpu="h100")
    assert f"about {3 * 2 + 3 * 0.1 + 4 * 0.1:.1f} hours" in capsys.readouterr().out


def test_a_plan_says_once_that_rows_wait_for_a_choice(
    tmp_path: Path, costs: None, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    searched = spec()
    searched.search = Search({"low": ["optim.lr=1e-9"], "high": ["optim.lr=1e-3"]})
    table = Table(searched, tmp_path)
    print_plan(table, jobs=None, gpu=None)
    assert capsys.readouterr().out.endswith("show their runs once that choice is made.\n")
    assert caplog.messages == []  # nothing has failed
    assert not run_table(table, lambda jobs: None)  # of which no run finishes
    assert [text for text in caplog.messages if text.startswith("plain is skipped: ")]


def test_tables_of_the_user_and_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "conf/reproduce/scale"
    own.mkdir(parents=True)
    (tmp_path / "conf/sts_lightning").touch()
    own.with_name("mine.yaml").write_text("title: My losses\nlike: losses_minilm\nseeds: [7]\n")
    (own / "small.yaml").write_text("hours: 0.1\noverrides: [data=toy]\n")
    monkeypatch.chdir(tmp_path)
    table = open_table("mine", "small", tmp_path)
    assert table.run_seeds == [7]
    assert list(table.spec.rows) == list(open_table("losses_minilm", None, tmp_path).spec.rows)
    list_tables()
    listed = capsys.readouterr().out
    assert "My losses" in listed and "pcc_table3" in listed and "minilm, small" in listed
    with pytest.raises(ConfigError, match=r"mine.*pcc_table3") as caught:
        open_table("mein", None, tmp_path)
    assert caught.value.key == "table"
