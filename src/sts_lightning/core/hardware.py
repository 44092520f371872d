"""Settings of a process for the CPU and NVIDIA's GPUs, the number of its cores, and its own GPU.

`set_cpu_defaults` and `set_gpu_defaults` set variables that torch reads when it is loaded or uses a GPU, so
they are called before; a variable that the user has set stays. Those for the CPU were measured to be worth
their lines:

- Cached kernels: oneDNN and torch keep 1,024 each, one for each shape of a product in bfloat16 or 8 bits.
  Nearly every chunk has another shape, so the caches take gigabytes within a hundred steps.
- Waiting threads: a thread spins 300,000 turns for the others. Beside another program the thread that it
  waits for is often not running: two runs at once on two cores are four to seven times slower.
- Number of threads: torch starts a thread for each core that the process is bound to. In a container with
  less computing time than these cores have, the system stops all threads for most of the time.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import platform
import subprocess
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


NUMBERS = ("LOCAL_RANK", "SLURM_LOCALID", "JSM_NAMESPACE_LOCAL_RANK")
"""Variables with the number of a process on its machine: of Lightning and torchrun, srun, and jsrun."""

ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
"""The same setting of torch by its old and its new name.

torch 2.8 reads the old one alone, and torch 2.9 ignores expandable segments in the new one
(https://github.com/pytorch/pytorch/issues/183387); torch 2.13 reads both, the old one first.
"""

OLDEST_DRIVERS = {"11": 450, "12": 525, "13": 580}
"""NVIDIA's oldest driver for programs of a CUDA version.

https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
"""


def cpu_multiplies_bfloat16() -> bool:
    """Return whether the CPU has instructions for products of bfloat16 (AMX or AVX512_BF16)."""
    import torch

    return torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()


def multiplies_bfloat16(device: str) -> bool:
    """Return whether a device multiplies bfloat16 natively: CUDA from compute capability 8.0, some CPUs.

    Args:
        device: Name of the device, as in ``cuda:0``.
    """
    import torch

    if device.startswith("cuda"):
        return torch.cuda.get_device_capability(device)[0] >= 8
    return device == "cpu" and cpu_multiplies_bfloat16()


def set_gpu_defaults() -> None:
    """Have torch extend the memory that it holds on a GPU, instead of holding many pieces of fixed size.

    Each step has chunks of other shapes, and pieces of freed memory would fit few of them. torch reads the
    variable when it first uses a GPU; processes that this one starts inherit it. A user's value stays.

    Only where it works: not on Windows, and not in its Linux (https://github.com/pytorch/pytorch/issues/192330).
    """
    if sys.platform == "linux" and "microsoft" not in platform.release().lower():
        if not any(name in os.environ for name in ALLOCATOR):
            os.environ[ALLOCATOR[0]] = "expandable_segments:True"


def local_gpu() -> str:
    """Return the GPU of this process: that of its number on its machine, as Lightning does.

    A task of SLURM that sees one GPU, by ``--gpus-per-task=1``, knows it as the first, whatever its number.
    """
    import torch

    number = next((int(os.environ[name]) for name in NUMBERS if name in os.environ), 0)
    return f"cuda:{min(number, torch.cuda.device_count() - 1)}"


@functools.cache
def hidden_gpu() -> str | None:
    """Return what keeps torch from the GPU of this machine; None if there is none, or the user hides it."""
    import torch

    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given in ("", "-1") or torch.cuda.is_available() or torch.version.hip is not None:
        return None
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        listed = subprocess.run(query, capture_output=True, text=True, check=True, timeout=30).stdout
        name, driver = listed.splitlines()[0].rsplit(", ", 1)
    except (OSError, subprocess.SubprocessError, IndexError, ValueError):
        if not Path("/dev/nvidia0").exists():
            return None
        return "/dev/nvidia0 is a GPU, but nvidia-smi, which comes with its driver, does not work."
    text = f"torch does not see the {name} of this machine: torch {torch.__version__} is a build for "
    advice = "https://pytorch.org/get-started/locally has the command that installs one for your driver."
    if torch.version.cuda is None:
        return f"{text}CPUs. {advice}"
    needed = OLDEST_DRIVERS.get(torch.version.cuda.partition(".")[0], 0)
    if int(driver.partition(".")[0]) < needed:
        older = f"{needed} or newer; this is {driver}. Update it, or install an older build: {advice}"
        return f"{text}CUDA {torch.version.cuda}, which needs driver {older}"
    hides = f"CUDA_VISIBLE_DEVICES={given} may name none; " if given else ""
    return f"{text}CUDA {torch.version.cuda}, driver {driver}. {hides}`torch.cuda.init()` says why."
