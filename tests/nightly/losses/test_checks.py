"""Losses of a user's own that do not keep to the base class."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig

from sts_lightning.core.errors import ConfigError
from sts_lightning.workflows.start import train_in
from tests.conftest import SHORT_RUN


def test_training_names_the_loss(config: Callable[..., DictConfig], tmp_path: Path) -> None:
    cfg = config(*SHORT_RUN, "evaluation.final=false")
    cfg.loss = {"_target_": "tests.unit.losses.test_checks.ByPair"}
    with pytest.raises(ConfigError, match=r"ByPair gives a tensor of shape \(64,\)"):
        train_in(tmp_path / "run", cfg)
