"""Figures of synthetic run folders, read back from the axes."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from omegaconf import DictConfig

from sts_lightning.core.errors import CheckpointError, ConfigError
from sts_lightning.reproduce import figures
from sts_lightning.reproduce.figures import FIGURES, FigureRun, name_runs, read_run
from sts_lightning.runs.folder import RunFolder
from tests.support.figure_folders import STEPS, write_folder, write_probing

Config = Callable[..., DictConfig]

BASE = ["experiment=simcse_unsup", "model=tiny_bert", "data=toy", "data.kind=sentences"]
RR = ["regularizer=rank_reduction"]

RANKS = {False: [10.0, 40.0, 30.0, 35.0], True: [10.0, 40.0, 20.0, 15.0]}


@pytest.fixture
def runs(tmp_path: Path, config: Config) -> list[FigureRun]:
    """Two seeds without and with rank reduction."""
    folders = []
    for reduced in (False, True):
        for seed in (1, 2):
            cfg = config(*BASE, *(RR if reduced else []), f"seed={seed}", "name=simcse")
            scores = [50.0, 60.0, 70.0 + seed + 5 * reduced, 60.0]
            folder = tmp_path / f"{reduced}_{seed}"
            folders.append(
                write_folder(folder, cfg, RANKS[reduced], scores, (75.0 + seed, 200.0 - 50 * reduced + seed))
            )
    systems = ("simcse", "simcse", "simcse + RR", "simcse + RR")
    return [read_run(RunFolder(folder), name) for folder, name in zip(folders, systems, strict=True)]


def test_seeds_share_a_system(runs: list[FigureRun]) -> None:
    assert [run.system for run in runs] == ["simcse", "simcse", "simcse + RR", "simcse + RR"]
    assert [run.seed for run in runs] == [1, 2, 1, 2]
    assert [run.reduced for run in runs] == [False, False, True, True]
    assert len({run.method for run in runs}) == 1


def test_runs_of_no_table_are_named_after_their_folders(tmp_path: Path, config: Config) -> None:
    folders = [write_folder(tmp_path / name, config(*BASE), [1] * 4, [1] * 4) for name in ("one", "two")]
    assert [run.system for run in name_runs([RunFolder(folder) for folder in folders])] == ["one", "two"]


def test_a_direction_that_raises_the_rank_is_not_reduction(tmp_path: Path, config: Config) -> None:
    cfg = config(*BASE, *RR, "regularizer.phase1=increase", "regularizer.phase2=none")
    folder = write_folder(tmp_path / "run", cfg, [1] * 4, [1] * 4)
    assert not name_runs([RunFolder(folder)])[0].reduced


def test_loss_curves_follow_the_equations() -> None:
    relu, smooth = (axis.get_lines()[0] for axis in figures.regression_figure2().axes)
    errors = np.asarray(relu.get_xdata())
    assert (errors[0], errors[-1]) == (0, 2)
    np.testing.assert_allclose(relu.get_ydata(), [max(0, 2 * (x - 0.25)) for x in errors], atol=1e-6)
    expected = [0 if x < 0.25 else 2 * (x * x - 2 * 0.25 * x + 0.25**2) for x in errors]
    np.testing.assert_allclose(smooth.get_ydata(), expected, atol=1e-6)


def test_rank_and_score_of_the_test_sets(runs: list[FigureRun]) -> None:
    plain, reduced = figures.rank_figure1(runs, "x", "test").axes[0].get_lines()
    assert (*plain.get_xdata(), *plain.get_ydata()) == (201.5, 76.5)
    assert (*reduced.get_xdata(), *reduced.get_ydata()) == (151.5, 76.5)


def test_rank_and_score_of_the_dev_pairs_at_the_selected_step(runs: list[FigureRun]) -> None:
    plain, reduced = figures.rank_figure1(runs, "x", "dev").axes[0].get_lines()
    assert (*plain.get_xdata(), *plain.get_ydata()) == (30, 71.5)
    assert (*reduced.get_xdata(), *reduced.get_ydata()) == (20, 76.5)


def test_curves_over_steps(runs: list[FigureRun]) -> None:
    above = figures.rank_figure2(runs, "x", "dev").axes[0]
    assert [list(line.get_ydata()) for line in above.get_lines()] == [RANKS[run.reduced] for run in runs]
    assert list(above.get_lines()[0].get_xdata()) == STEPS


def test_instability_needs_three_systems(runs: list[FigureRun], tmp_path: Path, config: Config) -> None:
    with pytest.raises(ConfigError) as caught:
        figures.rank_figure6(runs, "x", "test")
    assert caught.value.hint
    for seed in (1, 2):
        cfg = config(*BASE, f"seed={seed}", "name=other")
        write_folder(tmp_path / f"other_{seed}", cfg, [1] * 4, [1] * 4, (60.0 + 3 * seed, 100.0))
    runs += [read_run(RunFolder(tmp_path / f"other_{seed}"), "other") for seed in (1, 2)]
    axis = figures.rank_figure6(runs, "x", "test").axes[0]
    spreads = [statistics.stdev(pair) for pair in ((76, 77), (76, 77), (63, 66))]
    r = np.corrcoef([201.5, 151.5, 100], spreads)[0, 1]
    assert axis.get_title().endswith(f"{r:.2f}")
    assert list(axis.get_lines()[0].get_ydata()) == [spreads[0], spreads[2]]


def test_alignment_needs_the_dropout_views(tmp_path: Path, config: Config) -> None:
    cfg = config(*BASE, "callbacks=rank_monitor")
    plain = write_folder(tmp_path / "plain", cfg, [1, 4, 3, 2], [1] * 4)
    with pytest.raises(CheckpointError) as caught:
        figures.rank_figure3(name_runs([RunFolder(plain)]), "x", "dev")
    assert "callbacks.rank_monitor.views=dropout" in str(caught.value.hint)
    columns = [name for pair in figures.DEFINITIONS.values() for name in pair]
    more = {name: [number + step / 100 for step in STEPS] for number, name in enumerate(columns)}
    watched = write_folder(tmp_path / "watched", cfg, [1, 4, 3, 2], [1] * 4, more=more)
    axes = figures.rank_figure3(name_runs([RunFolder(watched)]), "x", "dev").axes
    found = {tuple(line.get_ydata()) for axis in axes for line in axis.get_lines()}
    assert {tuple(values) for values in more.values()} <= found


def test_probing_over_kept_steps(runs: list[FigureRun], tmp_path: Path) -> None:
    trained = runs[0].folder.path
    steps = (20, 0, 10)  # in any order
    folders = [write_probing(tmp_path / f"probing{step}", trained, step, 50 + step) for step in steps]
    axes = figures.rank_figure4([RunFolder(folder) for folder in folders], "x").axes
    line = axes[0].get_lines()[0]
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([0, 10, 20], [50, 60, 70])
    assert list(axes[1].get_lines()[0].get_ydata()) == [51, 61, 71]
    assert list(axes[0].get_lines()[1].get_xdata()) == [10, 10]  # the highest rank


def test_probing_of_something_else_is_rejected(runs: list[FigureRun], tmp_path: Path) -> None:
    trained = runs[0].folder.path
    best = write_probing(tmp_path / "best", trained, None, 50)
    with pytest.raises(CheckpointError) as caught:
        figures.rank_figure4([RunFolder(best)], "x")
    assert "suite=probing" in str(caught.value.hint)


def test_ends_of_phase_2(runs: list[FigureRun]) -> None:
    plain, reduced = figures.rank_figure7(runs, "x", "dev").axes
    assert [list(line.get_ydata()) for line in plain.get_lines()[1::2]] == [[71], [72]]
    assert [list(line.get_ydata()) for line in reduced.get_lines()[1::2]] == [[76], [77]]


def test_missing_numbers_are_named(tmp_path: Path, config: Config) -> None:
    folder = write_folder(tmp_path / "run", config(*BASE), [1] * 4, [1] * 4)
    named = name_runs([RunFolder(folder)])
    with pytest.raises(CheckpointError) as caught:
        figures.rank_figure1(named, "x", "test")
    assert "evaluation.rank=true" in str(caught.value.hint)
    RunFolder(folder).history_file.unlink()
    for drawing in (figures.rank_figure2, figures.rank_figure7):
        with pytest.raises(CheckpointError) as caught:
            drawing(named, "x", "dev")
        assert "rank_monitor" in str(caught.value.hint)


def test_every_figure_has_its_drawing() -> None:
    for name, spec in FIGURES.items():
        assert callable(getattr(figures, name))
        assert spec.commands[-1].startswith(f"sts-lightning reproduce figure {name}")
