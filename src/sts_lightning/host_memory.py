"""Memory of a process that computes on a CPU."""

from __future__ import annotations

import ctypes
import os
import sys

TRIM_THRESHOLD, MMAP_MAX = -1, -4
"""Numbers of glibc's parameters in `mallopt`, of which a value of at least 0 is set."""

CACHES = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": 256, "LRU_CACHE_CAPACITY": 32}
"""Variables that limit how many kernels oneDNN and torch's layer over it keep; a chunk takes about 15."""


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


def bound_kernel_caches() -> None:
    """Limit the kernels that are kept for products in bfloat16, one for each shape.

    By default there are 1,024 of each kind, and since nearly every chunk has another shape they take
    gigabytes within a hundred steps, hardly ever used again. The variables are read before the first such
    product, so this must come before torch computes. Values that the user has set are kept.
    """
    for name, capacity in CACHES.items():
        os.environ.setdefault(name, str(capacity))
