"""Settings of a process that computes on a CPU, and the number of its cores.

Each was measured to be worth its lines. Those of `set_cpu_defaults` are read when torch is loaded, so it is
called before; a variable that the user has set stays.

- Cached kernels: oneDNN and torch keep 1,024 each, one for each shape of a product in bfloat16 or 8 bits.
  Nearly every chunk has another shape, so the caches take gigabytes within a hundred steps.
- Waiting threads: a thread spins 300,000 turns for the others. Beside another program the thread that it
  waits for is often not running: two runs at once on two cores are four to seven times slower.
- Number of threads: torch starts a thread for each core that the process is bound to. In a container with
  less computing time than these cores have, the system stops all threads for most of the time.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path

CACHES = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "256", "LRU_CACHE_CAPACITY": "32"}
"""Largest numbers of kernels that oneDNN and torch's layer over it cache; a chunk needs about 15."""

SPINS, TURNS = "GOMP_SPINCOUNT", "10000"
"""Turns before a waiting thread of GNU's OpenMP sleeps: more than lie between two products."""

THREADS = "OMP_NUM_THREADS"
"""Variable that sets torch's number of threads."""


def set_cpu_defaults(root: Path = Path("/")) -> None:
    """Limit cached kernels, the spinning of waiting threads, and the number of threads.

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


TRIM_THRESHOLD, MMAP_MAX = -1, -4
"""Numbers of two parameters of `mallopt` in glibc's malloc.h."""


def keep_freed_memory() -> bool:
    """Let the process keep freed memory until it ends; return whether the C library can.

    It is for training alone. By default glibc returns the activations of a step and the gradient of the word
    table to the system, which clears page by page what the next step takes again: 5 to 10 % of the time of a
    small model's step. The peak stays.
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

    These are the cores it is bound to, or fewer if its container has less computing time than they, as by
    ``docker run --cpus`` or the limit of a Kubernetes pod.

    Args:
        root: Root of the file system.
    """
    return min([_bound_cores(), *(max(1, math.ceil(cores)) for cores in _quotas(root))])


def _bound_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas(root: Path) -> Iterator[float]:
    """Return the limits of the process's control groups, and of the groups around these, in cores."""
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
        innermost = tree / name.lstrip("/")
        for group in (innermost, *innermost.parents):
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
