from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from sts_lightning.cli import hydra_app
from sts_lightning.core.hardware import ALLOCATOR, NUMBERS, hidden_gpu, local_gpu, set_gpu_defaults


@pytest.fixture(autouse=True)
def _a_machine_of_its_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in (*ALLOCATOR, *NUMBERS, "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "release", lambda: "6.8.0-generic")
    hidden_gpu.cache_clear()
    yield
    hidden_gpu.cache_clear()


def allocator() -> dict[str, str]:
    set_gpu_defaults()
    return {name: os.environ[name] for name in ALLOCATOR if name in os.environ}


def test_memory_is_held_in_segments_that_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "environ", dict(os.environ))
        seen: dict[str, str] = {}
        patch.setattr(sys, "argv", ["train.py"])
        patch.setattr(hydra_app.hydra, "main", lambda **_: lambda job: lambda: seen.update(os.environ))
        hydra_app.run("train")
        assert [name for name in ALLOCATOR if name in seen] == ["PYTORCH_CUDA_ALLOC_CONF"]
        assert seen["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"


@pytest.mark.parametrize("name", ALLOCATOR)
def test_what_the_user_says_of_memory_is_kept(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "max_split_size_mb:64")
    assert allocator() == {name: "max_split_size_mb:64"}


@pytest.mark.parametrize(
    ("system", "release"), [("win32", "11"), ("linux", "6.6.87.2-microsoft-standard-WSL2")]
)
def test_segments_do_not_grow_under_windows(
    system: str, release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "release", lambda: release)
    assert allocator() == {}


@pytest.mark.parametrize(
    ("variables", "count", "device"),
    [
        ({}, 8, "cuda:0"),
        ({"SLURM_LOCALID": "3"}, 8, "cuda:3"),
        ({"LOCAL_RANK": "1", "SLURM_LOCALID": "0"}, 8, "cuda:1"),
        ({"SLURM_LOCALID": "3"}, 1, "cuda:0"),  # srun --gpus-per-task=1
    ],
)
def test_the_gpu_of_a_process(
    variables: dict[str, str], count: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert local_gpu() == device


@pytest.fixture
def _a_gpu_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    there = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: str(path) == "/dev/nvidia0" or there(path))


def fails() -> None:
    raise RuntimeError("The NVIDIA driver on your system\nis too old")


@pytest.mark.usefixtures("_a_gpu_is_there")
def test_why_torch_does_not_see_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "init", fails)
    text = "does not see the NVIDIA GPU of this machine: The NVIDIA driver on your system is too old"
    assert hidden_gpu() == f"torch {torch.__version__} {text}"
    hidden_gpu.cache_clear()
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    assert hidden_gpu() is None


@pytest.mark.usefixtures("_a_gpu_is_there")
def test_a_gpu_that_is_hidden_is_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "init", fails)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert hidden_gpu() is None


def test_a_gpu_that_is_not_there_is_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "exists", lambda _: False)
    assert hidden_gpu() is None
