"""Memory of a CPU that training frees and takes again in every step."""

from __future__ import annotations

import ctypes
import sys

TRIM_THRESHOLD, MMAP_MAX = -1, -4
"""Numbers of glibc's parameters in `mallopt`, of which a value of at least 0 is set."""


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
