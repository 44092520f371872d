"""Assignment of GPUs and threads to jobs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from sts_lightning.core.errors import ConfigError
from sts_lightning.sweep import gpu_pool as resources
from sts_lightning.sweep.gpu_pool import Pool, demand_of, gpus_for, this_machine, visible_gpus
from sts_lightning.sweep.job import Demand, Job
from sts_lightning.sweep.local import run_jobs
from tests.conftest import CONF
from tests.sweep.conftest import jobs, starts

Config = Callable[..., DictConfig]


@pytest.mark.slow
def test_demand_is_that_of_the_job(config: Config) -> None:
    assert demand_of(config()) == Demand(1, required=False)
    assert demand_of(config("model=mistral7b")) == Demand(1, required=True)
    assert demand_of(config("trainer=cpu", "trainer.devices=4")) == Demand(0)
    assert demand_of(config("trainer=ddp")) == Demand(-1, required=True)
    assert demand_of(config("trainer=ddp", "trainer.devices=2")) == Demand(2, required=True)
    assert demand_of(config("experiment=pcc")) == Demand(1, required=True)
    assert demand_of(config(of="eval")) == Demand(1)
    assert demand_of(config("accelerator=cpu", of="eval")) == Demand(0)
    with pytest.raises(ConfigError, match=r"num_nodes=2: a job of a sweep"):
        demand_of(config("trainer=ddp", "trainer.num_nodes=2"))


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


def test_threads_divide_the_cores_by_the_jobs_that_run() -> None:
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
        assert pool.plan(planned) == width
        slot = pool.take(planned[0])
        assert slot is not None
        assert slot.environment["OMP_NUM_THREADS"] == threads


def test_jobs_of_several_gpus_share_none() -> None:
    pool = Pool(["3", "5", "7"], cores=8)
    pair, single, cpu = made(Demand(2, required=True), Demand(1), Demand())
    first = pool.take(pair)
    assert first is not None
    assert first.gpus == ("3", "5")
    assert pool.take(pair) is None
    second, third = pool.take(single), pool.take(cpu)
    assert second is not None
    assert third is not None
    assert second.environment["CUDA_VISIBLE_DEVICES"] == "7"
    assert third.environment["CUDA_VISIBLE_DEVICES"] == ""
    pool.give(first)
    assert pool.take(pair) is not None


def test_gpus_are_named_as_the_user_sees_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 5)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5,7,9,11")
    assert visible_gpus() == ["3", "5", "7", "9", "11"]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert visible_gpus() == ["0", "1", "2", "3", "4"]


def test_the_front_page_sweep_on_eight_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-m model=mistral7b prompt=eol,sth,sum data.batch_size=192,200,216`: nine jobs, eight GPUs."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setattr(resources, "count_cores", lambda: 16)
    with initialize_config_dir(str(CONF), version_base="1.3"):
        demands = [
            demand_of(
                compose("train", ["name=x", "model=mistral7b", f"prompt={prompt}", f"data.batch_size={size}"])
            )
            for prompt in ("eol", "sth", "sum")
            for size in (192, 200, 216)
        ]
    planned = jobs(tmp_path, *["wait"] * 9)
    for job, demand in zip(planned, demands, strict=True):
        job.demand = demand
    run_jobs(planned, this_machine(None, None, planned))
    assert all(job.state == "done" for job in planned)
    begun = sorted((float(start[2]), start[1]) for job in planned for start in starts(job))
    first, ninth = begun[:8], begun[8]
    assert {gpu for _, gpu in first} == set("01234567")  # each used, none shared
    ended = [job.folder.joinpath("metrics.json").stat().st_mtime for job in planned]
    assert ninth[0] > min(ended)  # the ninth was queued until a GPU was free
