"""Sweeps through a real Ray cluster on this machine, and through submitit's local executor."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sts_lightning.errors import ConfigError, UserError
from sts_lightning.sweep import cluster
from sts_lightning.sweep.cluster import Handle, watch
from sts_lightning.sweep.job import Demand
from sts_lightning.sweep.ray_cluster import submit_to_ray
from sts_lightning.sweep.slurm import submit_to_slurm
from tests.sweep.conftest import jobs, starts


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "POLL", 0.1)


@pytest.fixture(scope="module")
def ray_address() -> Iterator[str]:
    """A cluster with two cores and two pretended GPUs."""
    ray = pytest.importorskip("ray")
    # Workers find the tests' module by the path of this process.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(["src", *sys.path]))
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        context = ray.init(
            num_cpus=2, num_gpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR"
        )
        yield context.address_info["address"]
        ray.shutdown()


def test_ray_runs_fails_and_skips(tmp_path: Path, ray_address: str, caplog: pytest.LogCaptureFixture) -> None:
    planned = jobs(tmp_path, "one", "fail", "three")
    with pytest.raises(UserError, match=r"1 of 3 jobs failed; see .*fail1/output.log"):
        for job in planned:
            job.demand = Demand(1)
        watch(planned, submit_to_ray(planned, ray_address, 1, None, None))
    assert [job.state for job in planned] == ["done", "failed", "done"]
    assert [job.score for job in planned] == [53.0, None, 55.0]
    assert "error: it went wrong; see" in caplog.text
    assert {starts(job)[0][1] for job in planned} <= {"0", "1"}  # the GPU that Ray gave it
    again = jobs(tmp_path, "one", "two")
    watch(again, submit_to_ray(again, ray_address, 1, None, None))
    assert [job.state for job in again] == ["was done", "done"]
    assert len(starts(again[0])) == 1


def test_ray_has_no_room(tmp_path: Path, ray_address: str) -> None:
    (job,) = jobs(tmp_path, "one")
    with pytest.raises(ConfigError, match="a job needs 5 CPUs, but the Ray cluster has 2"):
        submit_to_ray([job], ray_address, 5, None, None)
    job.demand = Demand(5, required=True)
    with pytest.raises(ConfigError, match="a job of the sweep needs 5 GPUs, but 2 are visible"):
        submit_to_ray([job], ray_address, 1, None, None)


def test_slurm_is_asked_for_the_gpus_of_each_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submitit = pytest.importorskip("submitit")
    asked: list[tuple[int | None, int]] = []

    class Executor:
        """Notes each array: GPUs of a job, and the number of jobs."""

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
    handles = submit_to_slurm(planned, tmp_path, "slurm")
    assert [handle.job for handle in handles] == [0, 1, 2, 3]  # type: ignore[attr-defined]
    assert asked == [(None, 1), (1, 2), (2, 1)]
    planned[0].demand = Demand(-1, required=True)
    with pytest.raises(ConfigError, match=r"add hydra\.launcher\.gpus_per_job"):
        submit_to_slurm(planned, tmp_path, "slurm")


def test_submitit_runs_fails_and_skips(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("submitit")
    planned = jobs(tmp_path, "one", "fail", "three")
    with pytest.raises(UserError, match=r"1 of 3 jobs failed; see .*fail1/output.log"):
        watch(planned, submit_to_slurm(planned, tmp_path / "submitit", "local", timeout_min=5))
    assert [job.state for job in planned] == ["done", "failed", "done"]
    assert [job.score for job in planned] == [53.0, None, 55.0]
    assert "error: it went wrong; see" in caplog.text
    again = jobs(tmp_path, "one")
    watch(again, submit_to_slurm(again, tmp_path / "submitit", "local", timeout_min=5))
    assert again[0].state == "was done"


def test_slurm_that_is_not_there_and_unknown_parameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"hydra.launcher: .*srun"):
        submit_to_slurm(jobs(tmp_path, "one"), tmp_path / "submitit", "slurm", timeout_min=5)
    with pytest.raises(ConfigError, match=r"hydra.launcher: .*colour"):
        submit_to_slurm(jobs(tmp_path, "one"), tmp_path / "submitit", "local", colour="red")


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


def test_a_job_resumes_after_slurms_time_limit(tmp_path: Path) -> None:
    """Submitit's signal handler: the job saves its state, and resumes once it is queued again."""
    pytest.importorskip("submitit")
    (job,) = jobs(tmp_path, "hang")
    remote = cluster.RemoteJob(job)
    thread = threading.Thread(target=remote)
    thread.start()
    deadline = time.monotonic() + 60
    while not (job.folder / "checkpoints" / "last.ckpt").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(0.5)
    again = pickle.loads(pickle.dumps(remote.checkpoint()))
    thread.join(10)
    assert remote.job.state == "stopped"
    assert again.function().state == "done"
    assert [start[0] for start in starts(job)] == ["False", "True"]
