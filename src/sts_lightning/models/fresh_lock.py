"""A lock that belongs to one object."""

from __future__ import annotations

import threading


class FreshLock:
    """Lock of which a copy, also by pickling, is another lock: those of threads cannot be copied."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[FreshLock], tuple[()]]:
        return FreshLock, ()
