"""Assignment of GPUs and threads to jobs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from sts_lightning.core.errors import ConfigError
from sts_lightning.sweep.gpu_pool import Pool, demand_of, visible_gpus
from sts_lightning.sweep.job import Demand
from sts_lightning.sweep.local import run_jobs
from tests.conftest import CONF
from tests.unit.sweep.conftest import jobs, starts

Config = Callable[..., DictConfig]


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


def test_the_front_page_sweep_on_eight_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-m model=mistral7b prompt=eol,sth,sum data.batch_size=192,200,216`: nine jobs, eight GPUs."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
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
    run_jobs(planned, Pool(visible_gpus(), 16))
    assert all(job.state == "done" for job in planned)
    begun = sorted((float(start[2]), start[1]) for job in planned for start in starts(job))
    first, ninth = begun[:8], begun[8]
    assert {gpu for _, gpu in first} == set("01234567")  # each used, none shared
    ended = [job.folder.joinpath("metrics.json").stat().st_mtime for job in planned]
    assert ninth[0] > min(ended)  # the ninth was queued until a GPU was free
