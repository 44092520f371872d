from __future__ import annotations

from pathlib import Path

import numpy as np

from sts_lightning.workflows.plots import plot_cosines, plot_curves


def is_drawn(path: Path) -> bool:
    from matplotlib.image import imread

    return path.read_bytes().startswith(b"\x89PNG") and float(np.ptp(imread(path))) > 0.5


def test_plots_are_drawn(tmp_path: Path) -> None:
    rows = [
        {"step": 0, "dev/spearman": 70.0},
        {"step": 1, "train/loss": 0.4},
        {"step": 2, "train/loss": 0.3, "dev/spearman": 75.0},
    ]
    plot_curves(rows, tmp_path / "plots" / "curves.png", best_step=2, title="a run")
    plot_cosines(np.linspace(-1, 1, 20), np.linspace(0, 5, 20), tmp_path / "dev.png", title="a run")
    assert is_drawn(tmp_path / "plots" / "curves.png")
    assert is_drawn(tmp_path / "dev.png")


def test_dollar_signs_are_not_mathematics(tmp_path: Path) -> None:
    plot_curves([{"step": 1, "train/loss": 0.4}], tmp_path / "curves.png", None, title="$5_vs_$10")
    assert is_drawn(tmp_path / "curves.png")


def test_curves_of_a_run_without_dev_scores(tmp_path: Path) -> None:
    plot_curves([{"step": 1, "train/loss": 0.4}], tmp_path / "curves.png", best_step=None, title="a run")
    assert is_drawn(tmp_path / "curves.png")
