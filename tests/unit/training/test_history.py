"""The history of a run, which its checkpoints hold."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sts_lightning.runs.folder import RunFolder
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.training.callbacks.checkpoints import RunRecorder
from sts_lightning.training.module import STSModule
from tests.support.loss_cases import make

UNUSED: Any = None


def recorder(run: RunFolder, log_every: int = 1) -> RunRecorder:
    return RunRecorder(run, 100, log_every, "resume=run")


def module() -> STSModule:
    return STSModule(tiny_bert(), make("pearson"), UNUSED, UNUSED)


def train(run: RunFolder, callback: RunRecorder, steps: Iterable[int], made: STSModule) -> Any:
    """Log as a step does, and end its batch; every fourth has a dev evaluation."""
    trainer = SimpleNamespace(
        is_global_zero=True, should_stop=False, world_size=1, val_check_batch=None, lightning_module=made
    )
    trainer.fit_loop = SimpleNamespace(total_batch_idx=0)
    trainer.state = SimpleNamespace(fn="validate")
    trainer.strategy = SimpleNamespace(launcher=None)
    trainer.save_checkpoint = lambda path: None
    for trainer.global_step in steps:
        made.logged |= {"lr": torch.tensor(1e-5), "step": torch.tensor(float(trainer.global_step))}
        callback.on_train_batch_end(trainer, made, None, None, 0)  # type: ignore[arg-type]
        if trainer.global_step % 4 == 0:
            made.logged["dev/score"] = 50.0 + trainer.global_step
            callback.on_validation_end(trainer, made)  # type: ignore[arg-type]
    return trainer


def test_a_row_for_each_step_that_is_logged(tmp_path: Path) -> None:
    run, made = RunFolder(tmp_path), module()
    made.add_row({"rank/energy": 7.0}, 3)
    callback = recorder(run, log_every=2)
    trainer = train(run, callback, range(1, 6), made)
    callback.on_exception(trainer, made, RuntimeError())  # type: ignore[arg-type]
    rate = "9.999999747378752e-06"  # in single precision, in which Lightning logs
    expected = f"step,rank/energy,lr,dev/score\n2,,{rate},\n3,7.0,,\n4,,{rate},54.0\n"
    assert run.history_file.read_text() == expected
    assert run.history()[1:] == [
        {"step": 3, "rank/energy": 7.0},
        {"step": 4, "lr": float(rate), "dev/score": 54.0},
    ]


@pytest.mark.parametrize("stored", [True, False])
def test_a_resumed_history_is_that_of_an_uninterrupted_run(stored: bool, tmp_path: Path) -> None:
    """The rows after the checkpoint are made again; a checkpoint of 0.3 has none, its file has them."""
    whole, resumed = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "resumed")
    for run in (whole, resumed):
        run.path.mkdir()
    made, callback = module(), recorder(whole)
    callback.on_train_end(train(whole, callback, range(1, 9), made), made)  # type: ignore[arg-type]
    first = module()
    train(resumed, callback := recorder(resumed), range(1, 5), first)
    progress = {"total": {"completed": 0, "ready": 1}}
    checkpoint: dict[str, Any] = {"global_step": 4, "loops": {"fit_loop": {"epoch_progress": progress}}}
    if stored:
        callback.on_save_checkpoint(UNUSED, first, checkpoint)
        checkpoint["history"] = dict(checkpoint["history"])
    trainer = train(resumed, callback, range(5, 7), first)
    callback.on_exception(trainer, first, RuntimeError())  # type: ignore[arg-type]
    assert [row["step"] for row in resumed.history()] == [*range(1, 7)]
    second, callback = module(), recorder(resumed)
    callback.on_load_checkpoint(UNUSED, second, checkpoint)
    callback.on_train_end(train(resumed, callback, range(5, 9), second), second)  # type: ignore[arg-type]
    assert resumed.history_file.read_bytes() == whole.history_file.read_bytes()


def test_writing_takes_a_fiftieth_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = {"now": 0.0}
    written: list[float] = []

    def write(run: RunFolder, rows: Iterable[Mapping[str, float]]) -> None:
        clock["now"] += 0.5
        written.append(clock["now"])

    monkeypatch.setattr(time, "monotonic", lambda: clock["now"])
    monkeypatch.setattr(RunFolder, "save_history", write)
    callback, made = recorder(RunFolder(tmp_path)), module()
    for step in range(1, 300):
        clock["now"] += 1
        train(callback.run, callback, [4 * step + 1], made)
    assert written[0] == 1.5
    assert {later - earlier for earlier, later in pairwise(written)} == {25.5}


def test_a_row_without_an_end_is_left_out(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.history_file.write_text("step,lr\n1,0.5\n2,0.")
    assert run.history() == [{"step": 1, "lr": 0.5}]
