"""The state of the callback that keeps the best weights."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from sts_lightning.runs.folder import RunFolder
from sts_lightning.training.callbacks.best_checkpoint import BestCheckpoint

ALONE: Any = SimpleNamespace(strategy=SimpleNamespace(reduce_boolean_decision=lambda decision: decision))
"""A trainer of one process."""


def test_the_best_score_outlives_a_move_of_the_folder(tmp_path: Path) -> None:
    before = BestCheckpoint(RunFolder(tmp_path / "before"), "best", monitor="dev", mode="max")
    path = str(tmp_path / "before" / "checkpoints" / "best.ckpt")
    before.best_model_path = before.kth_best_model_path = path
    before.best_model_score = before.kth_value = torch.tensor(80.0)
    before.best_k_models = {path: torch.tensor(80.0)}
    after = BestCheckpoint(RunFolder(tmp_path / "after"), "best", monitor="dev", mode="max")
    after.load_state_dict(before.state_dict())
    there = str(tmp_path / "after" / "checkpoints" / "best.ckpt")
    assert after.best_model_score == 80.0
    assert (after.best_model_path, after.kth_best_model_path, after.last_model_path) == (there, there, "")
    assert after.best_k_models == {there: 80.0}
    assert not after.check_monitor_top_k(ALONE, torch.tensor(79.0))
    assert after.check_monitor_top_k(ALONE, torch.tensor(81.0))
