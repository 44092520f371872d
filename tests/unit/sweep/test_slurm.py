"""Jobs on SLURM, with submitit's local executor in place of it."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sts_lightning.core.errors import ConfigError
from sts_lightning.sweep.job import Demand
from tests.unit.sweep.conftest import jobs

submitit = pytest.importorskip("submitit")
slurm = pytest.importorskip("sts_lightning.sweep.slurm")


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of this machine in place of SLURM's, started by submitit."""
    executor = submitit.AutoExecutor
    monkeypatch.setattr(submitit, "AutoExecutor", lambda folder, cluster: executor(folder, cluster="local"))


def test_slurm_is_asked_for_the_gpus_of_each_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int | None]] = []

    class Executor:
        def __init__(self, *_: object, **__: object) -> None:
            self.gpus: int | None = None

        def update_parameters(self, gpus_per_node: int | None) -> None:
            self.gpus = gpus_per_node

        def submit(self, remote: Any) -> SimpleNamespace:
            asked.append((remote.job.number, self.gpus))
            return SimpleNamespace()

    monkeypatch.setattr(submitit, "AutoExecutor", Executor)
    planned = jobs(tmp_path, *"abcd")
    for job, demand in zip(planned, (Demand(1), Demand(), Demand(2, required=True), Demand(1)), strict=True):
        job.demand = demand
    start = slurm.on_slurm(planned, tmp_path)
    for job in planned:
        start(job)
    assert asked == [(0, 1), (1, None), (2, 2), (3, 1)]
    planned[0].demand = Demand(-1, required=True)
    with pytest.raises(ConfigError, match=r"add hydra\.launcher\.gpus_per_job"):
        slurm.on_slurm(planned, tmp_path)
    slurm.on_slurm(planned, tmp_path, 4)(planned[0])
    assert asked[-1] == (0, 4)


def test_slurm_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"hydra.launcher: .*srun"):
        slurm.on_slurm(jobs(tmp_path, "one"), tmp_path / "submitit", timeout_min=5)


@pytest.mark.usefixtures("local")
def test_an_unknown_parameter(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"hydra.launcher: .*colour"):
        slurm.on_slurm(jobs(tmp_path, "one"), tmp_path / "submitit", colour="red")


def test_states_are_those_of_the_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\nprintf '1 PENDING\\n2 RUNNING\\n3 COMPLETING\\n'\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    queue = slurm._Queue(delay_s=0)

    def states() -> list[str]:
        handles = [submitit.SlurmJob(tmp_path / "submitit", number) for number in "1234"]
        for each in handles:
            each.watcher = queue
        return [slurm._SlurmHandle(each).state() for each in handles]

    expected = ["queued", "running", "running", "done"]
    assert states() == expected
    squeue.write_text("#!/bin/sh\nexit 1\n")  # the controller does not answer
    assert states() == expected
    queue = slurm._Queue(delay_s=0)
    assert states() == ["running"] * 4  # it is not known
