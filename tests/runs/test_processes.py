"""Runs of several processes through the command line, on the CPU."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from omegaconf import DictConfig

from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.start import train_in
from tests.conftest import SHORT_RUN
from tests.support.whole_runs import JOINT, metrics, weights

Cli = Callable[..., subprocess.CompletedProcess[str]]

SETTINGS = [
    *SHORT_RUN,
    "name=run",
    "data.train_size=50",  # with batch 8 the last one has two examples
    "data.dev_size=37",
    "data.batch_size=8",
    "trainer.max_epochs=1",
    "trainer.val_every=null",
    "trainer.log_every_n_steps=1",
    "logger=csv",
]


JOINT_EXTRA = ["model.dropout=0", "trainer.micro_batch_size=4", "optim.lr=1e-4"]


def several(count: int) -> list[str]:
    return ["trainer=ddp", "trainer.accelerator=cpu", f"trainer.devices={count}", "trainer.chunk_tokens=512"]


def same(one: Path, two: Path) -> None:
    left, right = (RunFolder(run).history() for run in (one, two))
    assert [row["step"] for row in left] == [row["step"] for row in right]
    for first, second in zip(left, right, strict=True):
        for name in first.keys() & {"train/loss", "dev/spearman", "dev/pearson", "lr"}:
            assert second[name] == pytest.approx(first[name], abs=2e-3), name
    there = weights(two)
    for name, value in weights(one).items():
        torch.testing.assert_close(there[name], value, atol=2e-5, rtol=1e-3)


@pytest.mark.parametrize(
    ("processes", "extra"),
    [
        (2, ["model.dropout=0", "trainer.micro_batch_size=2"]),
        (2, ["model.dropout=0", "trainer.wise_ft=[0,0.5]", "evaluation.untuned=true"]),
        (2, JOINT_EXTRA),
        (
            3,
            [
                "model.dropout=0",
                "loss=infonce",
                "data.kind=sentences",
                "auxiliary=momentum_queue",
                "auxiliary.size=12",
            ],
        ),
    ],
)
def test_several_processes_equal_one(
    processes: int, extra: list[str], cli: Cli, config: Callable[..., DictConfig], tmp_path: Path
) -> None:
    settings = JOINT if extra == JOINT_EXTRA else SETTINGS
    train_in(tmp_path / "one", config(*settings, *extra))
    done = cli("train.py", *settings, *extra, *several(processes), "hydra.run.dir=several")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("selected step") == 1
    same(tmp_path / "one", tmp_path / "several")
    assert metrics(tmp_path / "several")["processes"] == processes
    assert metrics(tmp_path / "several")["test"]["average"] == pytest.approx(
        metrics(tmp_path / "one")["test"]["average"], abs=0.05
    )
