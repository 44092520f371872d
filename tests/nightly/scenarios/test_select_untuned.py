"""The weights before training as a candidate of the selection by dev score."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from omegaconf import DictConfig

from sts_lightning.core.errors import InterruptedRunError
from sts_lightning.models.loading.run import load
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.start import train_in
from tests.conftest import SHORT_RUN
from tests.support.interruptions import StopAt
from tests.support.whole_runs import same_results

Config = Callable[..., DictConfig]

HARMFUL = [
    *SHORT_RUN,
    "optim.lr=0.5",
    "optim.warmup=0",
    "trainer.max_epochs=-1",
    "trainer.max_steps=4",
    "trainer.val_every=null",
]
"""A run with a learning rate so high that each of its steps lowers the dev score."""

LORA = "+model.adapter={_target_: peft.LoraConfig, r: 8, target_modules: [query, key, value, dense]}"


@pytest.mark.parametrize("adapter", [(), (LORA, "optim.lr=20")], ids=["all weights", "adapter"])
def test_a_harmful_run_keeps_the_untuned_weights(
    adapter: tuple[str, ...], tmp_path: Path, config: Config
) -> None:
    usual, untuned = tmp_path / "usual", tmp_path / "untuned"
    train_in(usual, config(*HARMFUL, *adapter, "trainer.keep_every=4"))
    assert RunFolder(usual).metrics().details["best_step"] > 0
    assert RunFolder(usual).metrics().details["worse_than_untuned"] is True
    train_in(untuned, config(*HARMFUL, *adapter, "trainer.select_untuned=true"))
    metrics = RunFolder(untuned).metrics()
    assert metrics.details["best_step"] == 0
    assert metrics.details["worse_than_untuned"] is False
    assert metrics.dev is not None
    assert metrics.dev["spearman"] == pytest.approx(metrics.details["dev_untuned"], abs=1e-3)
    texts = ["abc", "bcd e"]
    start = load(usual, step=0).encode(texts)
    np.testing.assert_allclose(load(untuned).encode(texts), start, atol=1e-6)


def test_a_resumed_run_remembers_them(tmp_path: Path, config: Config) -> None:
    overrides = [*HARMFUL, "trainer.select_untuned=true"]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    train_in(whole, config(*overrides))
    with pytest.raises(InterruptedRunError):
        train_in(cut, config(*overrides), callbacks=[StopAt(2)])
    train_in(cut, config(*overrides), resume=True)
    same_results(whole, cut)


def test_a_run_that_helps_is_not_affected(tmp_path: Path, config: Config) -> None:
    usual, untuned = tmp_path / "usual", tmp_path / "untuned"
    overrides = [*SHORT_RUN, "optim.lr=1e-3", "trainer.max_epochs=1"]
    train_in(usual, config(*overrides))
    train_in(untuned, config(*overrides, "trainer.select_untuned=true"))
    assert RunFolder(usual).metrics().details["best_step"] > 0
    same_results(usual, untuned)
