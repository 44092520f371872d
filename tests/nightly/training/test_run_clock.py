"""The duration of runs that were interrupted."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import DictConfig

from sts_lightning.runs.folder import RunFolder
from sts_lightning.training.assembly import Experiment
from sts_lightning.training.callbacks import progress as callbacks
from sts_lightning.workflows import start, train
from tests.conftest import SHORT_RUN


def test_the_duration_of_a_run_that_was_interrupted(
    config: Callable[..., DictConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, before, later = time.monotonic, train._begin, [0.0]
    monkeypatch.setattr(
        callbacks,
        "time",
        SimpleNamespace(monotonic=lambda: clock() + later[0], perf_counter=time.perf_counter),
    )

    def slowly(experiment: Experiment) -> None:
        later[0] += 1000.0
        before(experiment)

    def fail(*_: Any) -> None:
        later[0] += 100_000.0
        raise OSError("disk full")

    cfg = config(*SHORT_RUN, "trainer.max_steps=2", "logger=csv")
    run = RunFolder(tmp_path / "run")
    monkeypatch.setattr(train, "_begin", slowly)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="disk full"):
        patch.setattr(train, "report", fail)
        start.train_in(run.path, cfg)
    start.train_in(run.path, cfg, resume=True)
    seconds = run.metrics().details["wall_seconds"]
    assert seconds is not None
    assert 2000 < seconds < 2900
