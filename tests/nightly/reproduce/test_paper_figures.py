"""The script that draws the papers' figures, on hand-written runs."""

from __future__ import annotations

import csv
import json
import runpy
from pathlib import Path

import pytest
import yaml
from matplotlib import pyplot as plt

from sts_lightning.runs.folder import RunFolder
from tests.conftest import ROOT

STEPS = (10, 20, 30, 40)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two seeds of three systems whose rank rises and then falls, and evaluations of two kept weights."""
    for system, dropout in enumerate((0.0, 0.1, 0.2)):
        for seed in (1, 2):
            run = RunFolder(tmp_path / "runs" / f"{system}-{seed}")
            run.path.mkdir(parents=True)
            run.config_file.write_text(yaml.safe_dump({"model": {"dropout": dropout}, "seed": seed}))
            score = 70 + system + seed * (system + 1)
            test = {"tasks": {"STSB": {"spearman": score}}, "average": score}
            metrics = {"dev": {"spearman": 80}, "test": test, "rank": {"average": 100 + system}, "seed": seed}
            run.metrics_file.write_text(json.dumps(metrics))
            columns = ("energy", "spearman", "dropout_alignment", "dropout_uniformity")
            columns += ("dropout_sphere_alignment", "dropout_sphere_uniformity")
            with run.history_file.open("w") as file:
                writer = csv.DictWriter(file, ["step", *(f"rank/{name}" for name in columns)])
                writer.writeheader()
                for step, rank in zip(STEPS, (50, 90, 60, 40), strict=True):
                    values = {f"rank/{name}": 60 + step * seed / 10 for name in columns}
                    writer.writerow({"step": step, **values, "rank/energy": rank})
    for step in (0, 20):
        kept = tmp_path / "probing" / str(step)
        kept.mkdir(parents=True)
        tasks = {"Length": {"score": 60.0 + step}, "Tense": {"score": 80.0}}
        test = {"tasks": tasks, "average": 70.0}
        metrics = {"test": test, "ckpt": "runs/kept", "step": step, "suite": "probing"}
        (kept / "metrics.json").write_text(json.dumps(metrics))
        (kept / "config.yaml").write_text(
            yaml.safe_dump({"suite": "probing", "ckpt": "runs/kept", "step": step})
        )
    return tmp_path


def draw(name: str, runs: str, monkeypatch: pytest.MonkeyPatch) -> plt.Figure:
    plt.close("all")
    monkeypatch.setattr("sys.argv", ["paper_figures.py", name, *([runs] if runs else [])])
    runpy.run_path(str(ROOT / "examples" / "paper_figures.py"), run_name="__main__")
    assert Path(f"{name}.png").is_file()
    return plt.gcf()


def test_each_figure(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(runs)
    penalties = draw("regression_figure2", "", monkeypatch).axes[0].get_lines()[0].get_xydata()
    assert [y for x, y in penalties if x <= 0.25] == pytest.approx([0] * 51)
    points = [line.get_xydata()[0] for line in draw("rank_figure1", "runs", monkeypatch).gca().get_lines()]
    # seeds 1 and 2: the mean of 70 + system + seed (system + 1)
    assert [tuple(point) for point in points] == [(100, 71.5), (101, 74.0), (102, 76.5)]
    deviations = draw("rank_figure6", "runs", monkeypatch).gca()
    heights = [line.get_xydata()[0][1] for line in deviations.get_lines()]
    assert heights == pytest.approx([n * 0.5**0.5 for n in (1, 2, 3)])
    assert deviations.get_title() == "r = 1.00"
    ranks = draw("rank_figure2", "runs", monkeypatch).axes[0]
    assert [list(line.get_ydata()) for line in ranks.get_lines()] == [[50, 90, 60, 40]] * 6
    assert len(draw("rank_figure3", "runs", monkeypatch).axes) == 2 * 3 * 2  # two sides of each panel
    length = draw("rank_figure4", "probing", monkeypatch).axes[0].get_lines()[0]
    assert [tuple(point) for point in length.get_xydata()] == [(0, 60), (20, 80)]
    phases = draw("rank_figure5", "runs", monkeypatch).axes
    assert len(phases) == 6
    ranks_by_phase = [list(line.get_xdata()) for line in phases[0].get_lines()]
    assert ranks_by_phase == [[50, 90], [90, 60, 40], []]  # the dev score rises to the end
    ends = draw("rank_figure7", "runs", monkeypatch).axes
    assert [panel.get_title() for panel in ends] == [f"model.dropout={value}" for value in (0.0, 0.1, 0.2)]
    assert all(len(panel.get_lines()) == 4 for panel in ends)  # a curve and a star of each seed
