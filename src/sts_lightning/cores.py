"""Cores that a process may use, in a container too."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

THREADS = "OMP_NUM_THREADS"
"""Variable that sets how many threads torch computes with."""


def count_cores(root: Path = Path("/")) -> int:
    """Return the number of cores that this process may use.

    These are the cores it is bound to, or fewer if its container is granted less time than they have, as by
    ``docker run --cpus`` or a limit of a Kubernetes pod.

    Args:
        root: Root of the file system.
    """
    return min([_bound_cores(), *(max(1, math.ceil(cores)) for cores in _quotas(root))])


def limit_threads(root: Path = Path("/")) -> None:
    """Let torch compute with as many threads as the container may use cores; a number that is set is kept.

    Torch takes one for each core that the process is bound to. Where the container has less, the system stops
    all of them for most of the time. Must come before torch is loaded.

    Args:
        root: Root of the file system.
    """
    cores = count_cores(root)
    if cores < _bound_cores():
        os.environ.setdefault(THREADS, str(cores))


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
