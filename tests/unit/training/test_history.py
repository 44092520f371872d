from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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


def test_rows_on_disk_are_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the last one, which a dev evaluation makes longer; and all of them for another column."""
    logger, path = HistoryLogger(str(tmp_path)), tmp_path / "history.csv"
    logger.log_metrics({"dev/spearman": 50.0}, 0)
    logger.log_provisional({"train/loss": 0.5}, 1)
    logger.flush()
    monkeypatch.setattr(HistoryLogger, "_rewrite", None)  # from here on the file is only extended
    for step in range(1, 9):
        before = path.read_bytes()
        logger.log_metrics({"train/loss": step / 16}, step)
        logger.flush()
        logger.log_metrics({"dev/spearman": 50.0 + step}, step)
        logger.flush()
        logger.log_provisional({"train/loss": 0.5}, step + 1)
        logger.flush()
        assert path.read_bytes().startswith(before[: before.rstrip(b"\n").rindex(b"\n") + 1])
    expected = "".join(f"{step},{50.0 + step},{step / 16}\n" for step in range(1, 9))
    assert path.read_text() == f"step,dev/spearman,train/loss\n0,50.0,\n{expected}9,,0.5\n"
    monkeypatch.undo()
    logger.log_metrics({"train/loss": 0.5, "lr": 1.0}, 9)
    logger.flush()
    assert path.read_text().splitlines()[-2:] == ["8,58.0,0.5,", "9,,0.5,1.0"]
    path.unlink()  # or cut short
    logger.log_metrics({"train/loss": 0.25}, 10)
    logger.flush()
    assert [row["step"] for row in read_history(path)] == list(range(11))


def test_the_bytes_written_grow_with_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []
    lines = HistoryLogger._lines

    def counted(*args: Any) -> list[bytes]:
        made: list[bytes] = lines(*args)
        written.append(len(made))
        return made

    monkeypatch.setattr(HistoryLogger, "_lines", counted)
    logger = HistoryLogger(str(tmp_path))
    for step in range(100):
        logger.log_metrics({"train/loss": 0.5}, step)
        logger.flush()
    assert sum(written) == 101


def test_a_resumed_history_is_that_of_an_uninterrupted_run(tmp_path: Path) -> None:
    def train(folder: str, *parts: range) -> str:
        (tmp_path / folder).mkdir()
        for part in parts:
            logger = HistoryLogger(str(tmp_path / folder))
            if part.start:
                logger.continue_from(part.start - 1)
            for step in part:
                logger.log_provisional({"train/loss": step / 16}, step)
                logger.flush()
                logger.log_metrics({"train/loss": step / 16}, step)
                logger.log_metrics({"dev/spearman": 50.0 + step}, step)
        logger.flush()
        return (tmp_path / folder / "history.csv").read_text()

    assert train("resumed", range(5), range(3, 8)) == train("whole", range(8))
