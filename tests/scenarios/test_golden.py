"""Losses that the command line has printed before: a change of any of them is a change of results."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sts_lightning.runs.history_rows import read_history
from tests.conftest import SHORT_RUN

Cli = Callable[..., subprocess.CompletedProcess[str]]

SETTINGS = [
    *SHORT_RUN,
    "data.batch_size=16",
    "trainer.max_epochs=-1",
    "trainer.max_steps=5",
    "trainer.log_every_n_steps=1",
    "trainer.val_every=100",
    "evaluation.final=false",
    "optim.lr=1e-3",
    "logger=csv",
    "model.pooling=mean",
]

GOLDEN = {
    "cross_entropy": [1.19117, 1.1154, 1.1012, 1.107, 1.07958],
    "pearson": [0.46683, 0.24047, 0.36995, 1.04722, 0.39626],
    "queue": [2.46749, 3.04515, 3.19722, 2.95605, 2.60582],
    "rank_reduction": [2.44153, 2.2884, 2.27337, 2.16274, 1.91794],
    "smooth_k2": [19.48826, 12.7115, 22.00493, 12.23172, 12.77091],
    "spearman": [0.43859, 0.22643, 0.46899, 1.05053, 0.35246],
}

RECIPES = {
    "pearson": ["loss=pearson"],
    "spearman": ["loss=spearman"],
    "smooth_k2": ["loss=smooth_k2"],
    "cross_entropy": ["loss=cross_entropy", "data.kind=classes"],
    "rank_reduction": ["loss=infonce", "data.kind=sentences", "regularizer=rank_reduction"],
    "queue": ["loss=infonce", "data.kind=sentences", "queue.size=24", "data.repetition=0.3"],
}


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_losses_of_the_first_steps(name: str, cli: Cli, tmp_path: Path) -> None:
    done = cli("train.py", *SETTINGS, *RECIPES[name], "hydra.run.dir=run")
    assert done.returncode == 0, done.stderr
    rows = read_history(tmp_path / "run" / "history.csv")
    losses = [row["train/loss"] for row in rows if "train/loss" in row]
    assert losses == pytest.approx(GOLDEN[name], rel=2e-3)
