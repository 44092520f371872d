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


def nvidia_smi(folder: Path, output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of that name, the only one that is found."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{output}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


OLD = "echo 'NVIDIA H100, 80 GB, 550.54.15'"
LOCALLY = "https://pytorch.org/get-started/locally has the command that installs one for your driver."


@pytest.mark.parametrize(
    ("build", "output", "text"),
    [
        (None, OLD, f"CPUs. {LOCALLY}"),
        (
            "13.0",
            OLD,
            "CUDA 13.0, which needs driver 580 or newer; this is 550.54.15. Update it, or install an older "
            f"build: {LOCALLY}",
        ),
        ("12.6", OLD, "CUDA 12.6, driver 550.54.15. `torch.cuda.init()` says why."),
    ],
)
def test_why_torch_does_not_see_the_gpu(
    build: str | None, output: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvidia_smi(tmp_path, output, monkeypatch)
    monkeypatch.setattr(torch.version, "cuda", build)
    begin = "torch does not see the NVIDIA H100, 80 GB of this machine"
    assert hidden_gpu() == f"{begin}: torch {torch.__version__} is a build for {text}"


def test_a_gpu_that_is_not_there_or_hidden_is_no_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hidden_gpu() is None  # no program of that name here
    hidden_gpu.cache_clear()
    nvidia_smi(tmp_path, OLD, monkeypatch)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert hidden_gpu() is None
    hidden_gpu.cache_clear()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    monkeypatch.setattr(torch.version, "cuda", "12.6")
    assert "CUDA_VISIBLE_DEVICES=5 may name none; " in str(hidden_gpu())


@pytest.mark.parametrize("there", [True, False])
def test_a_driver_that_does_not_work(there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia_smi(tmp_path, "echo Driver/library version mismatch; exit 18", monkeypatch)
    monkeypatch.setattr(Path, "exists", lambda path: there and str(path) == "/dev/nvidia0")
    assert hidden_gpu() == (
        "/dev/nvidia0 is a GPU, but nvidia-smi, which comes with its driver, does not work."
        if there
        else None
    )
