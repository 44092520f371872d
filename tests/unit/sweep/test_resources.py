"""Assignment of GPUs and threads to jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sts_lightning.core.errors import ConfigError
from sts_lightning.sweep.gpu_pool import Pool, gpus_for, visible_gpus
from sts_lightning.sweep.job import Demand, Job


def test_gpus_of_a_job() -> None:
    optional, required, whole = Demand(1), Demand(2, required=True), Demand(-1, required=True)
    assert [gpus_for(optional, available) for available in (0, 1, 8)] == [0, 1, 1]
    assert gpus_for(whole, 8) == 8
    assert gpus_for(whole, 8, per_job=2) == 2
    assert gpus_for(optional, 8, per_job=4) == 4
    assert gpus_for(optional, 8, per_job=0) == 0
    with pytest.raises(ConfigError, match=r"gets 1 GPUs; add hydra\.launcher\.gpus_per_job=2\."):
        gpus_for(required, 8, per_job=1)
    with pytest.raises(ConfigError, match=r"needs 2 GPUs, but 1 are visible"):
        gpus_for(required, 1)


def made(*demands: Demand) -> list[Job]:
    return [Job(number, (), Path(f"job{number}"), demand) for number, demand in enumerate(demands)]


@pytest.mark.parametrize(
    ("given", "threads"), [("3", "3"), ("3,2", "3"), ("99", "16"), ("", "16"), ("x", "16")]
)
def test_a_users_number_of_threads_is_not_exceeded(
    given: str, threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    pool, planned = Pool([], cores=16, limit=1), made(Demand())
    pool.set_width(planned)
    variables = pool.take(planned[0])
    assert variables is not None
    assert variables["OMP_NUM_THREADS"] == threads


def test_threads_divide_the_cores_by_the_jobs_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    gpu, cpu = Demand(1, required=True), Demand()
    for pool, planned, width, threads in (
        (Pool("01234567", cores=64), made(*[gpu] * 9), 8, "8"),
        (Pool("01234567", cores=64), made(*[gpu] * 3), 3, "21"),
        (Pool([], cores=16), made(*[cpu] * 20), 8, "2"),
        (Pool([], cores=16), made(*[cpu] * 3), 3, "5"),
        (Pool([], cores=16, limit=2), made(*[cpu] * 20), 2, "8"),
        (Pool("01", cores=16), made(gpu, gpu, gpu, cpu, cpu), 4, "4"),
        (Pool("01", cores=16, limit=1), made(gpu, gpu), 1, "16"),
    ):
        assert pool.set_width(planned) == width
        variables = pool.take(planned[0])
        assert variables is not None
        assert variables["OMP_NUM_THREADS"] == threads


def gpus_of(pool: Pool, job: Job) -> str | None:
    """What a job is given."""
    variables = pool.take(job)
    return None if variables is None else variables["CUDA_VISIBLE_DEVICES"]


def test_jobs_of_several_gpus_share_none() -> None:
    pool = Pool(["3", "5", "7"], cores=8)
    pair, single, cpu, later = made(Demand(2, required=True), Demand(1), Demand(), Demand(2, required=True))
    assert gpus_of(pool, pair) == "3,5"
    assert gpus_of(pool, later) is None
    assert gpus_of(pool, single) == "7"
    assert gpus_of(pool, cpu) == ""
    pair.state = "failed"  # free again
    assert gpus_of(pool, later) == "3,5"


def test_jobs_that_share_gpus_get_one_name_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    pool, planned = Pool("01", cores=16, sharing=2), made(*[Demand(1)] * 5, Demand(2))
    assert pool.set_width(planned) == 4
    assert pool.threads == 4
    assert [gpus_of(pool, job) for job in planned[:5]] == ["0", "1", "0", "1", None]
    planned[0].state = "done"
    assert gpus_of(pool, planned[4]) == "0"
    planned[0].state = planned[1].state = "done"
    assert gpus_of(pool, planned[5]) is None  # 0 is full
    planned[2].state = "done"
    assert sorted(str(gpus_of(pool, planned[5])).split(",")) == ["0", "1"]  # never one twice


def test_gpus_are_named_as_the_user_sees_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 5)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5,7,9,11")
    assert visible_gpus() == ["3", "5", "7", "9", "11"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5,7,9,11,99")  # torch counts up to the first unknown one
    assert visible_gpus() == ["3", "5", "7", "9", "11"]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert visible_gpus() == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize(("count", "names"), [(1, ["MIG-a", "MIG-b", "MIG-c"]), (0, [])])
def test_each_slice_of_a_gpu_is_for_a_job(
    count: int, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch sees one slice of those in CUDA_VISIBLE_DEVICES."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-a,MIG-b,MIG-c")
    assert visible_gpus() == names
