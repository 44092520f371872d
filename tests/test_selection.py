"""`benchmarks/selection.py`: how well dev scores choose among runs, by hand and on folders of runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import selection

RUNS = {"a": (70.0, 60.0, 80.0, 75.0), "b": (72.0, 61.0, 79.0, 76.5), "c": (71.0, 62.0, 78.0, 76.0)}
"""Suite, its pairs of STS-B dev, all of STS-B dev, and the average of the test sets."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, (suite, clean, whole, average) in RUNS.items():
        run = tmp_path / name
        run.mkdir()
        dev = {"spearman": suite, "pearson": suite, "parts": {"stsb": {"spearman": clean}}}
        (run / "metrics.json").write_text(json.dumps({"dev": dev, "test": {"average": average, "tasks": {}}}))
        (run / "stsb_dev.json").write_text(json.dumps({"spearman": whole}))
    (tmp_path / "unfinished").mkdir()
    return tmp_path


def test_rank_correlation_and_regret_by_hand() -> None:
    # Spearman's correlation of three ranks is 1 - d2 / 4, where d2 is the sum of their squared differences.
    found = selection.figures(np.array(list(RUNS.values())))
    assert found == pytest.approx(np.array([[1.0, 0.0], [1 - 2 / 4, 0.5], [1 - 6 / 4, 1.5]]))


def test_report_of_a_folder_of_runs(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["selection.py", str(folder), "--resamples", "50"])
    selection.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:3]] == [
        [*(f"{value:.2f}" for value in scores), name] for name, scores in RUNS.items()
    ]
    shown = [line.partition(" [")[0] for line in lines]
    assert shown[4] == "3 runs"
    assert "suite: rank correlation 1.000" in shown
    assert "STS-B dev: regret 1.500" in shown
    assert "suite less STS-B dev: rank correlation 1.500" in shown
    assert "suite less STS-B dev: regret -1.500" in shown


def test_the_runs_above_a_score_alone(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["selection.py", str(folder), "--resamples", "9", "--above", "75.5"])
    selection.main()
    _, _, of_two = capsys.readouterr().out.partition("2 runs")
    assert "suite: regret 0.000" in of_two
    assert "STS-B dev, clean pairs: regret 0.500" in of_two


@pytest.mark.parametrize(
    ("metrics", "named"),
    [
        ({"dev": {"spearman": 70.0}, "test": {"average": 75.0, "tasks": {}}}, "dev=suite"),
        ({"dev": {"spearman": 70.0, "parts": {"stsb": {"spearman": 1.0}}}, "test": None}, "evaluation.final"),
        (None, "2 finished runs"),
    ],
)
def test_runs_that_cannot_be_compared_are_named(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    metrics: dict[str, object] | None,
    named: str,
) -> None:
    file = folder / "c" / "metrics.json"
    if metrics is None:
        file.unlink()
    else:
        file.write_text(json.dumps(metrics))
    monkeypatch.setattr(sys, "argv", ["selection.py", str(folder)])
    with pytest.raises(SystemExit) as left:
        selection.main()
    assert left.value.code == 2
    message = capsys.readouterr().err
    assert named in message
    assert str(folder if metrics is None else file) in message
