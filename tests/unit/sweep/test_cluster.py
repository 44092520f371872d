"""Jobs of a sweep on a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.core.errors import UserError
from sts_lightning.sweep import cluster
from sts_lightning.sweep.cluster import Handle, watch
from tests.unit.sweep.conftest import jobs


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "POLL", 0.1)


def test_ctrl_c_cancels_the_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled: list[int] = []

    class Waits:
        def __init__(self, number: int) -> None:
            self.number = number

        def state(self) -> str:
            return "running"

        def cancel(self) -> None:
            cancelled.append(self.number)

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cluster.time, "sleep", interrupt)
    planned = jobs(tmp_path, "one", "two")
    handles: list[Handle] = [Waits(0), Waits(1)]  # type: ignore[list-item]
    with pytest.raises(UserError, match="stopped by Ctrl-C; 2 of 2 jobs are left"):
        watch(planned, handles)
    assert cancelled == [0, 1]
