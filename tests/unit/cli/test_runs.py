"""`sts-lightning runs`."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from sts_lightning.cli.main import main
from tests.support.command_line import leaves
from tests.unit.runs.test_listing import INFONCE, settings, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two seeds of Pearson's loss and one run of InfoNCE."""
    write(tmp_path / "runs" / "a", settings(1), 80.0)
    write(tmp_path / "runs" / "b", settings(2), 82.0)
    write(tmp_path / "runs" / "c", settings(1, loss=INFONCE), 81.5)
    return tmp_path / "runs"


def test_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["runs", "list", str(folder), "--csv", str(folder / "all.csv")])
    text = capsys.readouterr().out
    assert "81.00 ± 1.41" in text
    assert text.index("loss=InfoNCELoss") < text.index("loss=PearsonLoss")  # the best average first
    rows = list(csv.DictReader((folder / "all.csv").open()))
    assert [(row["loss"], row["runs"], row["seeds"]) for row in rows] == [
        ("InfoNCELoss", "1", "1"),
        ("PearsonLoss", "2", "1 2"),
    ]
    assert float(rows[1]["dev std"]) == pytest.approx(2**0.5)


def test_sorted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["runs", "list", str(folder), "--sort", "minutes"])
    text = capsys.readouterr().out
    assert text.index("81.00 ± 1.41") < text.index("81.50")  # the cheapest first


def test_brackets_in_settings_are_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "d", settings(1, loss="[/b]"), 79.0)
    main(["runs", "list", str(folder)])
    assert "loss=[/b]" in capsys.readouterr().out


def test_best_run_for_scripts(
    folder: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        main(["runs", "list", str(folder), "--best"])
    assert caplog.messages == [str(folder / "b")]


def test_best_of_runs_with_the_same_dev_pairs_alone(
    folder: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    write(folder / "d", settings(1, dev="stsb"), 84.0, {"dev": "one"})
    write(folder / "e", settings(2, dev="stsb"), 83.0, {"dev": "one"})
    with caplog.at_level("INFO"):
        main(["runs", "list", str(folder), "--best"])  # the others do not state theirs
    assert caplog.messages == [str(folder / "d")]
    write(folder / "f", settings(3), 85.0, {"dev": "other"})
    said = leaves("runs", "list", str(folder), "--best", capsys=capsys)
    assert f"{folder / 'd'} and {folder / 'f'} have scores of different pairs" in said


def test_mistakes(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = [
        leaves("runs", "list", str(tmp_path / "absent"), capsys=capsys),
        leaves("runs", "list", str(folder), "--sort", "speed", capsys=capsys),
    ]
    parts = ["absent", "--sort speed"]
    assert [part for part, one in zip(parts, said, strict=True) if part not in one] == []
    assert all(one.startswith("error: ") for one in said)
