"""Losses that the command line has printed before: a change of any of them is a change of results."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sts_lightning.runs.folder import RunFolder
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
    "cross_entropy": [1.20101, 1.13069, 1.10604, 1.10964, 1.07997],
    "pearson": [0.35562, 0.17791, 0.61507, 0.87322, 0.42807],
    "queue": [2.43433, 3.06428, 3.23251, 3.00796, 2.66382],
    "rank_reduction": [2.46158, 2.24359, 2.23023, 2.13153, 1.90138],
    "smooth_k2": [19.46961, 12.68426, 22.02119, 12.29569, 12.69018],
    "spearman": [0.37079, 0.19298, 0.61741, 0.94131, 0.44286],
}

RECIPES = {
    "pearson": ["loss=pearson"],
    "spearman": ["loss=spearman"],
    "smooth_k2": ["loss=smooth_k2"],
    "cross_entropy": ["loss=cross_entropy", "data.kind=classes"],
    "rank_reduction": ["loss=infonce", "data.kind=sentences", "regularizer=rank_reduction"],
    "queue": [
        "loss=infonce",
        "data.kind=sentences",
        "auxiliary=momentum_queue",
        "auxiliary.size=24",
        "data.repetition=0.3",
    ],
}


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_losses_of_the_first_steps(name: str, cli: Cli, tmp_path: Path) -> None:
    done = cli("train.py", *SETTINGS, *RECIPES[name], "hydra.run.dir=run")
    assert done.returncode == 0, done.stderr
    rows = RunFolder(tmp_path / "run").history()
    losses = [row["train/loss"] for row in rows if "train/loss" in row]
    assert losses == pytest.approx(GOLDEN[name], rel=2e-3)
