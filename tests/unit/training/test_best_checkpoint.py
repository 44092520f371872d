"""The state of the callback that keeps the best weights."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sts_lightning.runs.folder import RunFolder
from sts_lightning.training.callbacks.checkpoints import BestCheckpoint


@pytest.mark.parametrize("key", ["BestCheckpoint", "BestCheckpoint{'monitor': 'dev', 'mode': 'max'}"])
def test_the_best_score_outlives_a_checkpoint(key: str, tmp_path: Path) -> None:
    """That of a folder that has moved too, and of 0.3, which stored a tensor."""
    trainer: Any = SimpleNamespace(state=SimpleNamespace(fn="fit"), global_step=1, is_global_zero=False)
    trainer.lightning_module = None
    saved: list[Path] = []
    trainer.save_checkpoint = lambda path, weights_only: saved.append(path)
    callback = BestCheckpoint(RunFolder(tmp_path), "dev", weights_only=True, untuned=False)
    states = {
        "Other": {},
        key: {"best_model_score": torch.tensor(80.0), "best_model_path": "before/best.ckpt"},
    }
    callback.on_load_checkpoint(trainer, trainer, {"callbacks": states})
    for score in (79.0, 80.0, 81.0):
        trainer.callback_metrics = {"dev": torch.tensor(score)}
        callback.on_validation_end(trainer, trainer)
    assert saved == [tmp_path / "checkpoints" / "best.ckpt"]
    assert callback.state_dict() == {"best_model_score": 81.0}
