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

from sts_lightning.core import cpu
from sts_lightning.core.cpu import CACHES, SPINS, THREADS, TURNS, count_cores, set_cpu_defaults
from tests.conftest import ROOT

VARIABLES = (*CACHES, SPINS, THREADS, "OMP_WAIT_POLICY")


@pytest.fixture(autouse=True)
def sixteen_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    for name in VARIABLES:
        monkeypatch.setenv(name, "1")  # so that it is as before afterwards
        monkeypatch.delenv(name)


def new_process(*command: str, **given: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], env=os.environ | given, capture_output=True, text=True, check=False
    )


def system(root: Path, groups: str, files: dict[str, str]) -> Path:
    for name, text in {"proc/self/cgroup": groups, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


V1 = "12:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n"


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        (
            V1,
            {
                "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "300000\n",
                "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000\n",
            },
            3,
        ),
        (
            V1,  # the path is the host's, and the container sees its own group as the root
            {
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "50000\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            1,
        ),
        (
            V1,
            {
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            16,
        ),
        ("0::/\n", {"sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2),
        ("0::/\n", {"sys/fs/cgroup/cpu.max": "250000 100000\n"}, 3),
        ("0::/\n", {"sys/fs/cgroup/cpu.max": "10000 100000\n"}, 1),
        ("0::/\n", {"sys/fs/cgroup/cpu.max": "max 100000\n"}, 16),
        ("0::/\n", {"sys/fs/cgroup/cpu.max": "6400000 100000\n"}, 16),
        ("0::/\n", {}, 16),
        (
            "0::/pod/one\n",  # the limit of the pod is below that of its container
            {"sys/fs/cgroup/pod/one/cpu.max": "800000 100000", "sys/fs/cgroup/pod/cpu.max": "400000 100000"},
            4,
        ),
    ],
)
def test_cores_of_a_container(groups: str, files: dict[str, str], expected: int, tmp_path: Path) -> None:
    root = system(tmp_path, groups, files)
    assert count_cores(root) == expected
    set_cpu_defaults(root)
    assert os.environ.get(THREADS) == (None if expected == 16 else str(expected))


def test_cores_of_other_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(cpu.os, "cpu_count", lambda: 5)
    assert count_cores(tmp_path) == 5


def test_what_the_user_has_set_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = system(tmp_path, "0::/\n", {"sys/fs/cgroup/cpu.max": "200000 100000\n"})
    for name in VARIABLES:
        monkeypatch.setenv(name, "7")
    set_cpu_defaults(root)
    assert {os.environ[name] for name in VARIABLES} == {"7"}
    for name in VARIABLES:
        monkeypatch.delenv(name)
    set_cpu_defaults(root)
    assert {name: os.environ[name] for name in (*CACHES, SPINS, THREADS)} == {
        **CACHES,
        SPINS: TURNS,
        THREADS: "2",
    }


FAULTS = """
import ctypes, resource, sys
from sts_lightning.core.cpu import keep_freed_memory
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


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="another C library")
def test_pages_are_cleared_once() -> None:
    pages = 5 * 48_000_000 // 4096
    assert page_faults("as usual") > pages // 2
    assert page_faults("keep") < pages // 50


def test_memory_of_other_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not cpu.keep_freed_memory()


def test_another_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    monkeypatch.setattr(sys, "platform", "linux")
    assert not cpu.keep_freed_memory()


PRODUCTS = """
import psutil
from sts_lightning.core.cpu import set_cpu_defaults
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


@pytest.mark.slow
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


@pytest.mark.slow
@OTHER_OPENMP
@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, TURNS), ({SPINS: "77"}, "77"), ({"OMP_WAIT_POLICY": "passive"}, "0")],
)
def test_threads_wait_no_longer(given: dict[str, str], expected: str) -> None:
    code = "from sts_lightning.core.cpu import set_cpu_defaults; set_cpu_defaults(); import torch"
    assert turns("-c", code, **given) == expected


@pytest.mark.slow
@OTHER_OPENMP
def test_commands_set_it_before_torch_is_loaded(tmp_path: Path) -> None:
    absent = ["model=tiny_bert", "data=pairs_file", "path=absent.csv", f"hydra.run.dir={tmp_path}"]
    assert turns(str(ROOT / "train.py"), *absent) == TURNS
    assert turns("-m", "sts_lightning.cli.main", "export", "--help") == TURNS
