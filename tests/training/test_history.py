from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.files import write_atomic
from sts_lightning.runs.history import read_history, scores_before_and_at
from sts_lightning.training.history import HistoryLogger


def test_metrics_of_a_step_share_a_row(tmp_path: Path) -> None:
    logger = HistoryLogger(str(tmp_path))
    logger.log_metrics({"train/loss": 0.5}, 1)
    logger.log_metrics({"train/loss": 0.25}, 2)
    logger.log_metrics({"dev/spearman": 80.0}, 2)
    logger.finalize("success")
    assert (tmp_path / "history.csv").read_text() == "step,train/loss,dev/spearman\n1,0.5,\n2,0.25,80.0\n"
    assert read_history(tmp_path / "history.csv")[0] == {"step": 1, "train/loss": 0.5}


def test_a_resumed_run_keeps_the_rows_up_to_its_checkpoint(tmp_path: Path) -> None:
    first = HistoryLogger(str(tmp_path))
    for step in range(1, 6):
        first.log_metrics({"train/loss": float(step)}, step)
    first.finalize("failed")
    second = HistoryLogger(str(tmp_path))
    second.continue_from(3)
    second.log_metrics({"train/loss": 40.0}, 4)
    second.finalize("success")
    assert [row["train/loss"] for row in read_history(tmp_path / "history.csv")] == [1, 2, 3, 40]


def test_a_provisional_row_is_written_until_the_final_one_is_logged(tmp_path: Path) -> None:
    logger = HistoryLogger(str(tmp_path))
    logger.log_provisional({"train/loss": 0.5, "stale": 1.0}, 3)
    logger.flush()
    assert read_history(tmp_path / "history.csv") == [{"step": 3, "train/loss": 0.5, "stale": 1.0}]
    logger.log_metrics({"train/loss": 0.5}, 3)
    logger.flush()
    assert read_history(tmp_path / "history.csv") == [{"step": 3, "train/loss": 0.5}]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "metrics.json"
    write_atomic(path, "old")

    def full_disk(self: Path, *args: object, **kwargs: object) -> int:
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(path, "new")
    assert path.read_bytes() == b"old"
    assert [item.name for item in tmp_path.iterdir()] == ["metrics.json"]


def test_scores_before_training_and_at_a_step() -> None:
    history = [
        {"step": 0, "dev/spearman": 48.0},
        {"step": 3, "train/loss": 1.0},
        {"step": 4, "dev/spearman": 42.0},
    ]
    assert scores_before_and_at(history, "dev/spearman", 4) == (48.0, 42.0)
    assert scores_before_and_at(history, "dev/spearman", 3) == (48.0, None)
    assert scores_before_and_at([], "dev/spearman", 4) == (None, None)
