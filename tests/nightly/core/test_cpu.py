"""Cores by affinity and by the limits of control groups, kept memory and kernels, waits of threads."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sts_lightning.core.hardware import CACHES, SPINS, TURNS
from tests.conftest import ROOT
from tests.unit.core.test_cpu import sixteen_cores as sixteen_cores


def new_process(*command: str, **given: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], env=os.environ | given, capture_output=True, text=True, check=False
    )


FAULTS = """
import ctypes, resource, sys
from sts_lightning.core.hardware import keep_freed_memory
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
    return int(new_process("-c", FAULTS, how).stdout)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="another C library")
def test_pages_are_cleared_once() -> None:
    pages = 5 * 48_000_000 // 4096
    assert page_faults("as usual") > pages // 2
    assert page_faults("keep") < pages // 50


PRODUCTS = """
import psutil
from sts_lightning.core.hardware import set_cpu_defaults
set_cpu_defaults()
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


def growth(**given: str) -> int:
    return int(new_process("-c", PRODUCTS, **given).stdout)


@pytest.mark.skipif(not torch.cpu._is_amx_tile_supported(), reason="other kernels are smaller")
def test_kernels_of_other_shapes_are_dropped() -> None:
    assert growth() < 0.7 * growth(**dict.fromkeys(CACHES, "1024"))


def turns(*command: str, **given: str) -> str:
    """As GNU's OpenMP reports its settings."""
    done = new_process(*command, **given, OMP_DISPLAY_ENV="verbose")
    found = re.search(rf"{SPINS} = '(\w+)'", done.stderr)
    assert found is not None, done.stderr
    return found[1]


OTHER_OPENMP = pytest.mark.skipif(sys.platform != "linux", reason="torch computes with another OpenMP")


@OTHER_OPENMP
@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, TURNS), ({SPINS: "77"}, "77"), ({"OMP_WAIT_POLICY": "passive"}, "0")],
)
def test_threads_wait_no_longer(given: dict[str, str], expected: str) -> None:
    code = "from sts_lightning.core.hardware import set_cpu_defaults; set_cpu_defaults(); import torch"
    assert turns("-c", code, **given) == expected


@OTHER_OPENMP
def test_commands_set_it_before_torch_is_loaded(tmp_path: Path) -> None:
    absent = ["model=tiny_bert", "data=pairs_file", "path=absent.csv", f"hydra.run.dir={tmp_path}"]
    assert turns(str(ROOT / "train.py"), *absent) == TURNS
    assert turns("-m", "sts_lightning.cli.main", "export", "--help") == TURNS
