"""The history of a run."""

from __future__ import annotations

from sts_lightning.runs.history import scores_before_and_at


def test_scores_before_training_and_at_a_step() -> None:
    history = [
        {"step": 0, "dev/spearman": 48.0},
        {"step": 3, "train/loss": 1.0},
        {"step": 4, "dev/spearman": 42.0},
    ]
    assert scores_before_and_at(history, "dev/spearman", 4) == (48.0, 42.0)
    assert scores_before_and_at(history, "dev/spearman", 3) == (48.0, None)
    assert scores_before_and_at([], "dev/spearman", 4) == (None, None)
