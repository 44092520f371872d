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
    "cross_entropy": [1.20361, 1.12681, 1.10674, 1.1129, 1.09195],
    "pearson": [0.68428, 0.40662, 0.45037, 0.89484, 0.81211],
    "queue": [2.45558, 3.04321, 3.25967, 3.01927, 2.69779],
    "rank_reduction": [2.43727, 2.29605, 2.28237, 2.13956, 1.86021],
    "smooth_k2": [19.35977, 12.76294, 22.04556, 12.32875, 12.81992],
    "spearman": [0.73844, 0.42991, 0.40193, 0.84298, 0.84766],
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
        "companion=momentum_queue",
        "companion.size=24",
        "data.repetition=0.3",
    ],
}


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_losses_of_the_first_steps(name: str, cli: Cli, tmp_path: Path) -> None:
    done = cli("train.py", *SETTINGS, *RECIPES[name], "hydra.run.dir=run")
    assert done.returncode == 0, done.stderr
    rows = read_history(tmp_path / "run" / "history.csv")
    losses = [row["train/loss"] for row in rows if "train/loss" in row]
    assert losses == pytest.approx(GOLDEN[name], rel=2e-3)
