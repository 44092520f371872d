"""NVIDIA's GPUs: which one is the process's own, how torch allocates on it, why torch does not see one."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
import sys
from pathlib import Path

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
