from __future__ import annotations

from pathlib import Path

from sts_lightning.runs.history import read_history
from sts_lightning.training.callbacks.history import HistoryLogger


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
