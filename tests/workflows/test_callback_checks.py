"""Callbacks of Lightning's own that do not go with the framework."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from omegaconf import DictConfig, OmegaConf

from sts_lightning.errors import ConfigError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.callback_checks import NOT_HERE, check_callback, check_monitors
from sts_lightning.workflows.train import train_in
from tests.conftest import SHORT_RUN

Config = Callable[..., DictConfig]

LIGHTNING = "lightning.pytorch.callbacks"


def test_what_goes_unnoticed_otherwise_is_rejected() -> None:
    for kind in NOT_HERE:
        with pytest.raises(ConfigError, match=f"callbacks.mine: {kind} "):
            check_callback("mine", type(kind, (Callback,), {})())
    with pytest.raises(ConfigError, match=r"keeps the weights of the best dev/spearman itself.*keep_every"):
        check_callback("mine", ModelCheckpoint(monitor="dev/spearman", mode="max", save_top_k=3))
    check_callback("mine", ModelCheckpoint(monitor="dev/pearson", mode="max"))


def test_monitors() -> None:
    cfg = OmegaConf.create({"callbacks": {"stop": {}}})
    found = {"dev/spearman": 1.0, "dev/pearson": 1.0}
    for monitor in ("dev/spearman", "train/loss"):
        check_monitors(cfg, [EarlyStopping(monitor)], found)
    with pytest.raises(ConfigError, match=r"callbacks.stop.monitor=dev/spearmann .*mean dev/spearman"):
        check_monitors(cfg, [EarlyStopping("dev/spearmann")], found)
    for monitor in ("rank/energy", "train/los"):  # Lightning finds these missing after the first steps
        with pytest.raises(ConfigError, match=f"monitor={monitor} is not measured"):
            check_monitors(cfg, [EarlyStopping(monitor)], found)


def test_in_a_run(config: Config, tmp_path: Path) -> None:
    scheduler = f"{{_target_: {LIGHTNING}.GradientAccumulationScheduler, scheduling: {{0: 4}}}}"
    with pytest.raises(ConfigError, match="adds up the losses of small batches"):
        train_in(tmp_path / "run", config(*SHORT_RUN, f"+callbacks.mine={scheduler}"))
    stop = ["callbacks=early_stopping", "callbacks.early_stopping.monitor=dev/spearmann"]
    with pytest.raises(ConfigError, match=r"callbacks\.early_stopping\.monitor=dev/spearmann"):
        train_in(tmp_path / "run", config(*SHORT_RUN, *stop))


def test_the_steps_made_are_reported(config: Config, tmp_path: Path) -> None:
    stop = ["callbacks=early_stopping", "callbacks.early_stopping.patience=1", "optim.lr=1e-9"]
    short = ["trainer.val_every=2", "trainer.max_epochs=10", "evaluation.final=false"]
    train_in(tmp_path / "run", config(*SHORT_RUN, *stop, *short))
    run = RunFolder(tmp_path / "run")
    assert run.metrics().details["steps"] == max(row["step"] for row in run.history()) < 10
