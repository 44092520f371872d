"""What every command sets for a CPU before torch is loaded."""

from __future__ import annotations

from sts_lightning.cores import limit_threads
from sts_lightning.host_memory import bound_kernel_caches
from sts_lightning.thread_waits import shorten_waits


def set_cpu_defaults() -> None:
    """Limit kept kernels, waits of threads and their number; what the user has set is kept."""
    bound_kernel_caches()
    shorten_waits()
    limit_threads()
