"""`sts-lightning reproduce figure`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig

from sts_lightning.cli.main import main
from sts_lightning.core.conf_folders import typed_here
from sts_lightning.reproduce.figures import FIGURES
from sts_lightning.reproduce.plan import Cell, open_table
from tests.support.figure_folders import write_folder

Config = Callable[..., DictConfig]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fails(*arguments: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main(["reproduce", "figure", *arguments])
    assert isinstance(caught.value.code, str)
    return str(caught.value.code)


def test_figures_are_listed_with_the_tables(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["reproduce", "list"])
    listed = capsys.readouterr().out
    assert "pcc_table3" in listed
    for name, spec in FIGURES.items():
        assert name in listed
        assert all(typed_here(command) in listed for command in spec.commands)


def test_a_figure_without_runs(project: Path) -> None:
    main(["reproduce", "figure", "regression_figure2", "--to", "here/losses.png"])
    assert (project / "here/losses.png").read_bytes().startswith(b"\x89PNG")
    main(["reproduce", "figure", "regression_figure2"])
    assert (project / "runs/reproduce/figures/regression_figure2.png").is_file()
    assert "no run" in fails("regression_figure2", "x")


@pytest.mark.parametrize("name", ["rank_figure1", "rank_figure3", "rank_figure4"])
def test_missing_runs_are_one_clear_error(name: str, project: Path) -> None:
    assert typed_here(FIGURES[name].commands[0]) in fails(name)
    missing = "--table" if FIGURES[name].drawn_from == "table" else "absent"
    assert missing in fails(name, "absent")
    assert not list(project.rglob("*.png"))


def test_options_that_do_not_fit(project: Path) -> None:
    assert "rank_figure1" in fails("rank_figure99")
    assert "--table rank_table2" in fails("rank_figure1", "run", "--table", "rank_table2")
    assert "suite=probing" in fails("rank_figure4", "--table", "rank_table2")
    assert ".png" in fails("regression_figure2", "--to", "losses.pdf")
    assert "SimCSE + RR" in fails("rank_figure7", "--table", "rank_table2", "--row", "Absent")
    unfinished = fails("rank_figure7", "--table", "rank_table2", "--model", "minilm", "--row", "SimCSE")
    assert "is not a run folder" in unfinished


def test_runs_of_a_table_are_found_by_its_plan(project: Path, config: Config) -> None:
    own: dict[str, list[str]] = {"SimCSE": [], "SimCSE + RR": ["regularizer=rank_reduction"]}
    composed = {  # before the plan, which composes too
        row: [config("data=toy", "model=tiny_bert", *more, f"seed={seed}") for seed in (1, 2, 3)]
        for row, more in own.items()
    }
    table = open_table("rank_table2", "minilm", Path("runs/reproduce"))
    for row, configurations in composed.items():
        for planned, cfg in zip(table.seed_runs(Cell(row, "minilm")), configurations, strict=True):
            scores = [50.0, 60.0, 70.0 + cfg.seed, 60.0]
            write_folder(planned.folder, cfg, [1, 4, 3, 2], scores, (70.0, 90.0))
    rows = [word for row in own for word in ("--row", row)]
    for name in ("rank_figure1", "rank_figure2", "rank_figure7"):
        arguments = [name, "--table", "rank_table2", "--model", "minilm", *rows]
        main(["reproduce", "figure", *arguments, "--to", f"{name}.png"])
        assert (project / f"{name}.png").read_bytes().startswith(b"\x89PNG")
