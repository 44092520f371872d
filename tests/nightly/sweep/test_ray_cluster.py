"""Jobs on a real Ray cluster on this machine."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from sts_lightning.core.errors import ConfigError, FailedJobsError
from sts_lightning.core.signals import Stopped, listening
from sts_lightning.sweep.job import Demand, Job
from sts_lightning.sweep.watch import watch
from tests.unit.sweep.conftest import jobs, starts

ray_cluster = pytest.importorskip("sts_lightning.sweep.ray_cluster")


@pytest.fixture(scope="module")
def ray_address() -> Iterator[str]:
    """A cluster with two cores and two pretended GPUs."""
    ray = pytest.importorskip("ray")
    # Workers find the tests' module by the path of this process.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(["src", *sys.path]))
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        before = signal.getsignal(signal.SIGTERM)
        context = ray.init(
            num_cpus=2, num_gpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR"
        )
        yield context.address_info["address"]
        ray.shutdown()
        signal.signal(signal.SIGTERM, before)  # every `ray.init` sets one, of which other tests would hear


def test_the_sweep_still_hears_a_stop_signal_after_ray_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a stand-in that does what `ray.init` does to the handler of SIGTERM."""
    heard: list[str] = []

    def init(*_: object, **__: object) -> None:
        signal.signal(signal.SIGTERM, lambda *_: heard.append("Ray"))

    ray = SimpleNamespace(init=init, cluster_resources=lambda: {"CPU": 0})
    monkeypatch.setattr(ray_cluster, "ray", ray)
    with listening():
        with pytest.raises(ConfigError, match="the Ray cluster has 0"):
            ray_cluster.on_ray(jobs(tmp_path, "one"), None, 1, None, None)
        with pytest.raises(Stopped):
            signal.raise_signal(signal.SIGTERM)
    assert not heard


def test_ray_has_no_room(tmp_path: Path, ray_address: str) -> None:
    (job,) = jobs(tmp_path, "one")
    with pytest.raises(ConfigError, match="a job needs 5 CPUs, but the Ray cluster has 2"):
        ray_cluster.on_ray([job], ray_address, 5, None, None)
    job.demand = Demand(5, required=True)
    with pytest.raises(ConfigError, match="a job of the sweep needs 5 GPUs, but 2 are visible"):
        ray_cluster.on_ray([job], ray_address, 1, None, None)


def test_jobs_share_a_gpu_of_ray(tmp_path: Path, ray_address: str) -> None:
    """Three at a time on one of the two GPUs: more jobs than GPUs, of half a core each."""
    planned = jobs(tmp_path, "wait", "wait", "wait")
    for job in planned:
        job.demand = Demand(1)
    watch(planned, ray_cluster.on_ray(planned, ray_address, 0.5, None, None, 4), poll=0.1)
    assert {job.state for job in planned} == {"done"}
    begun = [float(starts(job)[0][2]) for job in planned]
    assert max(begun) < min(job.folder.joinpath("metrics.json").stat().st_mtime for job in planned)
    assert {starts(job)[0][1] for job in planned} <= {"0", "1"}


def test_a_job_of_several_gpus_of_ray_gets_them_whole(tmp_path: Path, ray_address: str) -> None:
    (job,) = jobs(tmp_path, "one")
    job.demand = Demand(2, required=True)
    watch([job], ray_cluster.on_ray([job], ray_address, 1, None, None, 4), poll=0.1)
    assert sorted(starts(job)[0][1].split(",")) == ["0", "1"]


def test_ray_places_a_job_after_that_it_starts_from(tmp_path: Path, ray_address: str) -> None:
    first = Job(0, ("what=wait",), tmp_path / "first", first=True)
    bad = Job(0, ("what=fail",), tmp_path / "bad", first=True)
    after, skipped, free = jobs(tmp_path, "after", "skipped", "free")
    after.needs, skipped.needs = (first.folder,), (bad.folder,)
    after.demand = free.demand = Demand(1)
    planned = [first, bad, after, skipped, free]
    with pytest.raises(FailedJobsError, match="1 of 5 jobs failed; 1 that start"):
        watch(planned, ray_cluster.on_ray(planned, ray_address, 1, None, None), poll=0.1)
    assert [job.state for job in planned] == ["done", "failed", "done", "not run", "done"]
    assert float(starts(after)[0][-1]) > (first.folder / "metrics.json").stat().st_mtime
    assert not (skipped.folder / "starts").exists()
    assert {starts(job)[0][1] for job in (after, free)} <= {"0", "1"}  # the GPU that Ray gave it
