"""Jobs as SLURM arrays, with submitit's local executor in place of SLURM."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sts_lightning.core.errors import ConfigError
from sts_lightning.sweep import cluster
from sts_lightning.sweep.cluster import submit_to_slurm
from sts_lightning.sweep.job import Demand
from tests.unit.sweep.conftest import jobs


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "POLL", 0.1)


def test_slurm_is_asked_for_the_gpus_of_each_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submitit = pytest.importorskip("submitit")
    asked: list[tuple[int | None, int]] = []

    class Executor:
        """Notes each array: GPUs of a job, and the number of jobs."""

        cluster = "slurm"

        def __init__(self, **_: object) -> None:
            self.gpus: int | None = None

        def update_parameters(self, **parameters: int) -> None:
            self.gpus = parameters.get("gpus_per_node", self.gpus)

        @contextlib.contextmanager
        def batch(self) -> Iterator[None]:
            asked.append((self.gpus, 0))
            yield

        def submit(self, remote: cluster.RemoteJob) -> int:
            asked[-1] = (asked[-1][0], asked[-1][1] + 1)
            return remote.job.number

    monkeypatch.setattr(submitit, "AutoExecutor", Executor)
    planned = jobs(tmp_path, *"abcd")
    for job, demand in zip(planned, (Demand(1), Demand(), Demand(2, required=True), Demand(1)), strict=True):
        job.demand = demand
    handles = submit_to_slurm(planned, tmp_path)
    assert [handle.job for handle in handles] == [0, 1, 2, 3]  # type: ignore[attr-defined]
    assert asked == [(None, 1), (1, 2), (2, 1)]
    planned[0].demand = Demand(-1, required=True)
    with pytest.raises(ConfigError, match=r"add hydra\.launcher\.gpus_per_job"):
        submit_to_slurm(planned, tmp_path)


def test_slurm_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"hydra.launcher: .*srun"):
        submit_to_slurm(jobs(tmp_path, "one"), tmp_path / "submitit", timeout_min=5)


@pytest.mark.usefixtures("slurm")
def test_an_unknown_parameter(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"hydra.launcher: .*colour"):
        submit_to_slurm(jobs(tmp_path, "one"), tmp_path / "submitit", colour="red")


def test_states_are_those_of_the_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\nprintf '4_0 PENDING\\n4_1 RUNNING\\n5 COMPLETING\\n'\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(cluster, "SQUEUE_POLL", 0)
    queue = cluster._SlurmQueue()
    expected = ["queued", "running", "running", "done"]
    assert [queue.state(number) for number in ("4_0", "4_1", "5", "6")] == expected
    squeue.write_text("#!/bin/sh\nexit 1\n")  # the controller does not answer
    assert [queue.state(number) for number in ("4_0", "4_1", "5", "6")] == expected
    assert cluster._SlurmQueue().state("6") == "queued"
