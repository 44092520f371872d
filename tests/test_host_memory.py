"""Memory that is freed and taken again, as the system counts it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest
import torch

from sts_lightning import host_memory

FAULTS = """
import ctypes, resource, sys
from sts_lightning.host_memory import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
def step():
    block = libc.malloc(48_000_000)
    libc.memset(block, 0, 48_000_000)
    libc.free(block)
step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="another C library")
def test_pages_are_cleared_once() -> None:
    pages = 5 * 48_000_000 // 4096
    assert page_faults("as usual") > pages // 2
    assert page_faults("keep") < pages // 50


def test_other_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not host_memory.keep_freed_memory()


def test_another_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    monkeypatch.setattr(sys, "platform", "linux")
    assert not host_memory.keep_freed_memory()


PRODUCTS = """
import psutil
from sts_lightning.host_memory import bound_kernel_caches
bound_kernel_caches()
import torch
weight = torch.ones(1536, 384, dtype=torch.bfloat16)
def product(rows):
    torch.nn.functional.linear(torch.ones(rows, 384, dtype=torch.bfloat16), weight)
product(1000)
before = psutil.Process().memory_info().rss
for rows in range(100, 900):
    product(rows)
print(psutil.Process().memory_info().rss - before)
"""


def growth(capacity: str | None) -> int:
    given = {} if capacity is None else dict.fromkeys(host_memory.CACHES, capacity)
    clean = {name: value for name, value in os.environ.items() if name not in host_memory.CACHES}
    done = subprocess.run(
        [sys.executable, "-c", PRODUCTS], env=clean | given, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not torch.cpu._is_amx_tile_supported(), reason="other kernels are smaller")
def test_kernels_of_other_shapes_are_dropped() -> None:
    assert growth(None) < 0.7 * growth("1024")  # the user's own values are kept


def test_the_limits_are_set_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in host_memory.CACHES:
        monkeypatch.setenv(name, "1")  # so that it is as before afterwards
        monkeypatch.delenv(name)
    monkeypatch.setenv("LRU_CACHE_CAPACITY", "7")
    host_memory.bound_kernel_caches()
    assert os.environ["LRU_CACHE_CAPACITY"] == "7"
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "256"
