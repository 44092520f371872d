"""Tests of the paths that a GPU takes: on CUDA with `make check-gpu`, on an emulated one, or on the CPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from omegaconf import DictConfig

from sts_lightning.core.hardware import resolve_machine
from tests.support.emulated_gpu import emulated_gpu

HERE = Path(__file__).parent

DETERMINISTIC: dict[str, bool | str] = {}
"""What trainer=auto takes on each kind of device; composing for every test would take most of its time."""


@pytest.fixture(params=["cpu", "emulated", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    """A device, under the determinism that trainer=auto takes on it."""
    kind: str = request.param
    if kind == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device: make check-gpu")
    with emulated_gpu() if kind == "emulated" else nullcontext():
        if kind not in DETERMINISTIC:
            config: Callable[..., DictConfig] = request.getfixturevalue("config")
            cfg = config(f"trainer={'cpu' if kind == 'cpu' else 'gpu'}")
            DETERMINISTIC[kind] = resolve_machine(cfg).deterministic
        chosen = DETERMINISTIC[kind]
        before = torch.are_deterministic_algorithms_enabled()
        warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read once in a process
        torch.use_deterministic_algorithms(bool(chosen), warn_only=chosen == "warn")
        yield torch.device("cpu") if kind == "cpu" else torch.device("cuda", 0)
        torch.use_deterministic_algorithms(before, warn_only=warn_only)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the emulated cases; of LoRA, whose dropout has no other tests there, also those on the CPU.

    8-bit weights are not emulated: bitsandbytes keeps them a second time in the state of the product, which
    in training is another one on CUDA, of integers, than on a CPU.
    """

    def is_left_out(item: pytest.Item) -> bool:
        params = getattr(getattr(item, "callspec", None), "params", {})
        if item.path.parent != HERE or "device" not in params:
            return False
        if params["device"] == "emulated":
            return "8bit" in params.values()
        return params["device"] == "cpu" and "test_lora" not in item.nodeid

    items[:] = [item for item in items if not is_left_out(item)]
