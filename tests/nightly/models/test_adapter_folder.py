"""Folders of adapters as models: merged into the base that they name, or rejected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from omegaconf import DictConfig

import sts_lightning
from sts_lightning.export.export import export
from sts_lightning.models.loading.run import build_encoder
from sts_lightning.workflows.start import train_in
from tests.conftest import SHORT_DATA
from tests.support.exports import STEPS
from tests.support.families import tiny, write
from tests.unit.models.test_adapter_folder import TEXTS, adapter_folder


def test_training_starts_from_the_merged_weights(config: Callable[..., DictConfig], tmp_path: Path) -> None:
    """Out, in, train with a new adapter, out with both merged, in again."""
    base = write(tiny("bert"), tmp_path / "base")
    vectors = adapter_folder(tmp_path / "first", base)
    lora = "{_target_: peft.LoraConfig, task_type: FEATURE_EXTRACTION, r: 4, target_modules: all-linear}"
    model = ["model=encoder", f"model.name={tmp_path / 'first'}", f"model.adapter={lora}"]
    short = ["data.train_size=64", "data.dev_size=8", "evaluation.final=false"]
    cfg = config(*model, *SHORT_DATA, *STEPS, *short)
    start = build_encoder(cfg.model, cfg.prompt).eval()
    np.testing.assert_allclose(start.encode(TEXTS), vectors, atol=1e-5)
    train_in(tmp_path / "run", cfg)
    trained = sts_lightning.load(tmp_path / "run").encode(TEXTS)
    assert abs(trained - vectors).max() > 1e-3
    export(tmp_path / "run", tmp_path / "out", "merged")
    np.testing.assert_allclose(sts_lightning.load(tmp_path / "out").encode(TEXTS), trained, atol=1e-5)
