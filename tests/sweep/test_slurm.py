"""Jobs as SLURM arrays, with submitit's local executor in place of SLURM."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from sts_lightning.core.errors import ConfigError, UserError
from sts_lightning.sweep import cluster
from sts_lightning.sweep.cluster import submit_to_slurm, watch
from sts_lightning.sweep.job import Demand
from tests.sweep.conftest import jobs


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


@pytest.mark.slow
@pytest.mark.usefixtures("slurm")
def test_submitit_runs_fails_and_skips(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    planned = jobs(tmp_path, "one", "fail", "three")
    with pytest.raises(UserError, match=r"1 of 3 jobs failed; see .*fail1/output.log"):
        watch(planned, submit_to_slurm(planned, tmp_path / "submitit", timeout_min=5))
    assert [job.state for job in planned] == ["done", "failed", "done"]
    assert [job.score for job in planned] == [53.0, None, 55.0]
    assert "error: it went wrong; see" in caplog.text
    again = jobs(tmp_path, "one")
    watch(again, submit_to_slurm(again, tmp_path / "submitit", timeout_min=5))
    assert again[0].state == "was done"


def test_slurm_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"hydra.launcher: .*srun"):
        submit_to_slurm(jobs(tmp_path, "one"), tmp_path / "submitit", timeout_min=5)


@pytest.mark.usefixtures("slurm")
def test_an_unknown_parameter(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"hydra.launcher: .*colour"):
        submit_to_slurm(jobs(tmp_path, "one"), tmp_path / "submitit", colour="red")
