"""Cores by affinity and by the limits of control groups, kept memory and kernels, waits of threads."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

import pytest

from sts_lightning.core import hardware as cpu
from sts_lightning.core.hardware import CACHES, SPINS, THREADS, TURNS, count_cores, set_cpu_defaults

VARIABLES = (*CACHES, SPINS, THREADS, "OMP_WAIT_POLICY")


@pytest.fixture(autouse=True)
def sixteen_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    for name in VARIABLES:
        monkeypatch.setenv(name, "1")  # so that it is as before afterwards
        monkeypatch.delenv(name)


def system(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 16),
        ({"cpu.max": "250000 100000\n"}, 3),
        ({"cpu.max": "10000 100000\n"}, 1),
        ({"cpu.max": "max 100000\n"}, 16),
        ({"cpu.max": "6400000 100000\n"}, 16),
        ({}, 16),
    ],
)
def test_cores_of_a_container(files: dict[str, str], expected: int, tmp_path: Path) -> None:
    root = system(tmp_path, files)
    assert count_cores(root) == expected
    set_cpu_defaults(root)
    assert os.environ.get(THREADS) == (None if expected == 16 else str(expected))


def test_cores_of_other_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(cpu.os, "cpu_count", lambda: 5)
    assert count_cores(tmp_path) == 5


def test_what_the_user_has_set_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = system(tmp_path, {"cpu.max": "200000 100000\n"})
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


def test_memory_of_other_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not cpu.keep_freed_memory()


def test_another_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    monkeypatch.setattr(sys, "platform", "linux")
    assert not cpu.keep_freed_memory()
