from __future__ import annotations

from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sts_lightning.training.event_file import EventFileLogger


def logger(folder: Path) -> EventFileLogger:
    return EventFileLogger(str(folder), name="tensorboard", version="")


def losses(folder: Path) -> list[tuple[int, float]]:
    (path,) = (folder / "tensorboard").glob("events.*")
    return [(event.step, event.value) for event in EventAccumulator(str(path)).Reload().Scalars("loss")]


def test_one_file_after_each_end(tmp_path: Path) -> None:
    one = logger(tmp_path)
    for step in (1, 2):
        one.log_metrics({"loss": step}, step)
        one.finalize("success")
    one.close()
    assert losses(tmp_path) == [(1, 1), (2, 2)]


def test_a_resumed_run_repeats_nothing_and_fills_gaps(tmp_path: Path) -> None:
    first = logger(tmp_path)
    for step in (1, 2, 4, 5):
        first.log_metrics({"loss": step, "final/dev": 1.0}, step)
    first.finalize("failed")
    (former,) = (tmp_path / "tensorboard").glob("events.*")
    former.write_bytes(former.read_bytes()[:-3])  # killed while it wrote
    second = logger(tmp_path)
    second.continue_from(4, [{"step": step, "loss": float(step)} for step in range(1, 5)])
    second.log_metrics({"loss": 6}, 5)
    second.close()
    assert sorted(losses(tmp_path)) == [(1, 1), (2, 2), (3, 3), (4, 4), (5, 6)]
    (path,) = (tmp_path / "tensorboard").glob("events.*")
    assert "final/dev" not in EventAccumulator(str(path)).Reload().Tags()["scalars"]
