"""Runs that start from the weights of an earlier one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from omegaconf import DictConfig
from safetensors.torch import load_file

from sts_lightning.models.loading.folder import TRAINING
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.start import train_in
from tests.nightly.scenarios.test_recipes import overrides

Config = Callable[..., DictConfig]


def test_head_then_both(config: Config, tmp_path: Path) -> None:
    """The two steps of the regression recipe: the head is handed on, the encoder stood still."""
    head, tune = tmp_path / "head", tmp_path / "tune"
    train_in(head, config(*overrides("regression_head")))
    first = load_file(RunFolder(head).model("final") / TRAINING)
    assert {name.partition(".")[0] for name in first} == {"loss"}
    tuning = [text for text in overrides("regression_tune") if text != "trainer.init=best"]
    cfg = config(*tuning, f"init_from={head}", "trainer.max_steps=1", "optim.lr=1e-12", "optim.warmup=0")
    train_in(tune, cfg)
    second = load_file(tune / "model" / TRAINING)
    for name, value in first.items():
        torch.testing.assert_close(second[name], value, atol=1e-9, rtol=0)
