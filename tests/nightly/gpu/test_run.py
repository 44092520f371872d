"""Whole runs on a device: resumed bit for bit, micro batches found, several cards."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from omegaconf import DictConfig

from sts_lightning.core.errors import InterruptedRunError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.start import train_in
from tests.conftest import SHORT_DATA
from tests.nightly.scenarios.test_processes import SETTINGS, same
from tests.nightly.scenarios.test_resume import StopAt
from tests.support.whole_runs import metrics, same_results

Config = Callable[..., DictConfig]

RUN = [
    *SHORT_DATA,
    "model=tiny_mistral",
    "prompt=eol",
    "data.train_size=96",
    "data.batch_size=16",
    "trainer.max_epochs=2",
    "trainer.log_every_n_steps=1",
    "trainer.save_every=5",
    "precision=bf16-mixed",
    "optim.lr=1e-3",
]


def on(device: torch.device) -> str:
    return "trainer=gpu" if device.type == "cuda" else "trainer=cpu"


@pytest.mark.parametrize("extra", [["trainer.micro_batch_size=4"], ["model.quantization=4bit"]], ids=str)
def test_a_resumed_run_ends_with_the_numbers_of_an_uninterrupted_one(
    extra: list[str], device: torch.device, config: Config, tmp_path: Path
) -> None:
    settings = [*RUN, on(device), *extra]
    train_in(tmp_path / "whole", config(*settings))
    with pytest.raises(InterruptedRunError):
        train_in(tmp_path / "cut", config(*settings), callbacks=[StopAt(8)])
    train_in(tmp_path / "cut", RunFolder(tmp_path / "cut").load_config(), resume=True)
    same_results(tmp_path / "whole", tmp_path / "cut")


@pytest.mark.parametrize("quantization", ["none", "8bit"])
def test_the_loss_falls(quantization: str, device: torch.device, config: Config, tmp_path: Path) -> None:
    settings = [
        "trainer.max_epochs=6",
        "trainer.micro_batch_size=auto",
        f"model.quantization={quantization}",
    ]
    train_in(tmp_path / "run", config(*RUN, on(device), *settings, "loss=cosine_mse"))
    losses = [row["train/loss"] for row in RunFolder(tmp_path / "run").history() if "train/loss" in row]
    assert sum(losses[-6:]) < 0.9 * sum(losses[:6])
    stored = metrics(tmp_path / "run")
    assert stored["machine"]["accelerator"] == ("gpu" if device.type == "cuda" else "cpu")
    assert stored["micro_batch_tokens"] is None  # the whole batch fits
    assert device.type == "cpu" or stored["peak_memory_bytes"]["cuda"] > 0


@pytest.mark.gpu
def test_two_cards_equal_one(cli: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path) -> None:
    """With a last batch of two examples, and dev batches that do not divide by two."""
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two CUDA devices")
    for count in (1, 2):
        done = cli(
            "train.py",
            *SETTINGS,
            "model.dropout=0",
            "trainer=ddp",
            f"trainer.devices={count}",
            f"hydra.run.dir={tmp_path / str(count)}",
        )
        assert done.returncode == 0, done.stderr
    same(tmp_path / "1", tmp_path / "2")
    assert metrics(tmp_path / "2")["processes"] == 2
