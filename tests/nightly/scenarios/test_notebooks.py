"""The notebook that sweeps over losses."""

from __future__ import annotations

from pathlib import Path

from tests.runs.test_notebooks import FOLDER, run


def test_a_loss_of_ones_own(tmp_path: Path) -> None:
    run(FOLDER / "own_loss.ipynb", tmp_path)
    assert "HuberLoss" in (tmp_path / "losses.csv").read_text()
