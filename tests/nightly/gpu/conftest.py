"""Tests of the paths that a GPU takes: on CUDA with `make check-gpu`, and one case of each on the CPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from omegaconf import DictConfig

from sts_lightning.config.machine import decide

HERE = Path(__file__).parent

DETERMINISTIC: dict[str, bool | str] = {}
"""What trainer=auto takes on each kind of device; composing for every test would take most of its time."""


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    """A device, under the determinism that trainer=auto takes on it."""
    kind: str = request.param
    if kind == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device: make check-gpu")
    if kind not in DETERMINISTIC:
        config: Callable[..., DictConfig] = request.getfixturevalue("config")
        cfg = config(f"trainer={'gpu' if kind == 'cuda' else 'cpu'}")
        DETERMINISTIC[kind] = decide(cfg).deterministic
    chosen = DETERMINISTIC[kind]
    before = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read once in a process
    torch.use_deterministic_algorithms(bool(chosen), warn_only=chosen == "warn")
    yield torch.device(kind, 0) if kind == "cuda" else torch.device(kind)
    torch.use_deterministic_algorithms(before, warn_only=warn_only)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep one case of each test on the CPU, which shows that its body runs; LoRA's has no other tests."""
    seen: set[str] = set()
    kept = []
    for item in items:
        cases = getattr(item, "callspec", None)
        if item.path.parent == HERE and cases is not None and cases.params.get("device") == "cpu":
            name = item.nodeid.partition("[")[0]
            if name in seen and item.path.stem != "test_lora":
                continue
            seen.add(name)
        kept.append(item)
    items[:] = kept
