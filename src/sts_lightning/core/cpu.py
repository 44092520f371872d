"""What is set for a process that computes on a CPU, and how many cores it has.

Each of these was measured to be worth its lines, and must come before torch is loaded:

- Kernels that are kept: by default 1,024 of each kind, one for each shape of a product in bfloat16 or 8 bits.
  Nearly every chunk has another shape, so that they take gigabytes within a hundred steps.
- Waits of threads: by default a thread spins 300,000 turns for the others. Where other programs compute too,
  the one it waits for is often not running: two runs at once on two cores are four to seven times slower.
- Number of threads: torch takes one for each core that the process is bound to. Where a container is granted
  less time than they have, the system stops all of them for most of the time.

`keep_freed_memory` is for training alone. What the user has set is kept.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path

TRIM_THRESHOLD, MMAP_MAX = -1, -4
"""Numbers of glibc's parameters in `mallopt`, of which a value of at least 0 is set."""

CACHES = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "256", "LRU_CACHE_CAPACITY": "32"}
"""Limits of the kernels that oneDNN and torch's layer over it keep; a chunk takes about 15."""

SPINS, TURNS = "GOMP_SPINCOUNT", "10000"
"""Turns before a waiting thread of GNU's OpenMP sleeps: more than lie between two products."""

THREADS = "OMP_NUM_THREADS"
"""Variable that sets how many threads torch computes with."""


def set_cpu_defaults(root: Path = Path("/")) -> None:
    """Limit kept kernels, waits of threads and their number.

    Args:
        root: Root of the file system.
    """
    for name, capacity in CACHES.items():
        os.environ.setdefault(name, capacity)
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault(SPINS, TURNS)
    cores = count_cores(root)
    if cores < _bound_cores():
        os.environ.setdefault(THREADS, str(cores))


def keep_freed_memory() -> bool:
    """Let the process keep what it frees until it ends; return whether the C library can.

    By default glibc returns the activations of a step and the gradient of the word table to the system, which
    clears page by page what the next step takes again: 5 to 10 % of the time of a small model's step. The
    peak stays.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return False
    return bool(mallopt(TRIM_THRESHOLD, 2**31 - 1) and mallopt(MMAP_MAX, 0))


def count_cores(root: Path = Path("/")) -> int:
    """Return the number of cores that this process may use, in a container too.

    These are the cores it is bound to, or fewer if its container is granted less time than they have, as by
    ``docker run --cpus`` or a limit of a Kubernetes pod.

    Args:
        root: Root of the file system.
    """
    return min([_bound_cores(), *(max(1, math.ceil(cores)) for cores in _quotas(root))])


def _bound_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas(root: Path) -> Iterator[float]:
    """Return the limits of the process's control groups, in cores: of its own ones and those around them."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # another system than Linux
        return
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if controllers == "":  # version 2 has all controllers in one tree
            tree = root / "sys/fs/cgroup"
        elif "cpu" in controllers.split(","):
            tree = root / "sys/fs/cgroup" / controllers
        else:
            continue
        own = tree / name.lstrip("/")
        for group in (own, *own.parents):
            yield from _quota(group)
            if group == tree:
                break


def _quota(group: Path) -> Iterator[float]:
    """Return the limit of a control group, if it has one: time granted in each period."""
    try:
        if (group / "cpu.max").exists():
            granted, period = (group / "cpu.max").read_text().split()
        else:
            granted = (group / "cpu.cfs_quota_us").read_text().strip()
            period = (group / "cpu.cfs_period_us").read_text()
    except OSError:  # the group is not visible from within the container, or has no limit
        return
    if granted not in ("max", "-1"):
        yield int(granted) / int(period)
