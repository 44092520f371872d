"""The duration of runs that were interrupted."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from sts_lightning.training.callbacks import progress as callbacks
from sts_lightning.training.callbacks.progress import RunClock


def test_a_resumed_run_adds_the_time_up_to_its_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(
        callbacks, "time", SimpleNamespace(monotonic=lambda: now[0], perf_counter=time.perf_counter)
    )
    first = RunClock()
    now[0] += 50
    state = first.state_dict()
    now[0] += 7  # lost with the process
    second = RunClock()
    now[0] += 20
    second.load_state_dict(state)
    now[0] += 5
    assert (first.seconds, second.seconds) == (82.0, 75.0)
