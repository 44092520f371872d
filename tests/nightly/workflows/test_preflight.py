"""Parts of a run that fit together or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.core.errors import ConfigError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.start import train_in
from tests.conftest import SHORT_RUN
from tests.unit.workflows.test_preflight import Config


def test_a_metric_of_early_stopping_in_a_run(config: Config, tmp_path: Path) -> None:
    stop = ["callbacks=early_stopping", "callbacks.early_stopping.monitor=dev/spearmann"]
    with pytest.raises(ConfigError, match=r"monitor=dev/spearmann is not measured"):
        train_in(tmp_path / "run", config(*SHORT_RUN, *stop))


def test_the_steps_made_are_reported(config: Config, tmp_path: Path) -> None:
    stop = ["callbacks=early_stopping", "callbacks.early_stopping.patience=1", "optim.lr=1e-9"]
    short = ["trainer.val_every=2", "trainer.max_epochs=10", "evaluation.final=false"]
    train_in(tmp_path / "run", config(*SHORT_RUN, *stop, *short))
    run = RunFolder(tmp_path / "run")
    assert run.metrics().details["steps"] == max(row["step"] for row in run.history()) < 10
