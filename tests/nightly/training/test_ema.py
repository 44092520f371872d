"""Averages of weights that do not all train; `tests/scenarios/test_recipes.py` resumes such runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from omegaconf import DictConfig

from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.start import train_in
from tests.conftest import EXACT
from tests.support.whole_runs import EPOCHS

Config = Callable[..., DictConfig]

EMA = [
    *EPOCHS,
    EXACT,
    "callbacks=ema",
    "callbacks.ema.decay=0.9",
    "model=tiny_llama",
    "prompt=eol",
    "model.quantization=4bit",
]


def test_the_average_of_a_quantised_model_is_reported(config: Config, tmp_path: Path) -> None:
    """Packed weights stay as they are: dev scores at a learning rate near zero do not change."""
    train_in(tmp_path / "run", config(*EMA, "optim.lr=1e-12"))
    rows = [row["dev/spearman"] for row in RunFolder(tmp_path / "run").history() if "dev/spearman" in row]
    assert len(rows) > 2
    np.testing.assert_allclose(rows, rows[0], atol=1e-3)
