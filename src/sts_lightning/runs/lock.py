"""The lock of a run folder, so that no two processes ever write into one."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from sts_lightning.errors import RunningElsewhereError

log = logging.getLogger(__name__)

LOCK = ".lock"
"""The locked file. The system releases the lock when its process ends; the file alone means nothing."""

PATIENCE = 0.5
"""Seconds to wait for a process that is just leaving the folder."""

UNSUPPORTED = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
"""Error numbers of a file system that cannot lock."""


def is_first_process() -> bool:
    """Whether this is the only process of its run, or the one of several that writes the run folder."""
    variables = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK")  # in Lightning's order
    rank = next((os.environ[name] for name in variables if name in os.environ), "0")
    return rank == "0" and os.environ.get("NODE_RANK", "0") == "0"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a run folder; a folder in which nothing was written is left as it was found.

    Args:
        folder: The run folder, which is made if need be.

    Raises:
        RunningElsewhereError: Another process holds it.
        OSError: The lock cannot be written.
    """
    path = folder / LOCK
    found = folder.is_dir()
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, timeout=PATIENCE, on_acquired=_sign)
    try:
        lock.acquire()
    except Timeout:
        raise RunningElsewhereError(
            f"another process is running in {folder}{_holder(path)}; wait for it, or choose another folder "
            "with hydra.run.dir=..."
        ) from None
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        path.unlink(missing_ok=True)
        log.warning(
            "%s: its file system has no locks (%s); take care that no other process runs in it.",
            folder,
            error.strerror,
        )
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if [entry.name for entry in folder.iterdir()] in ([LOCK], []):
                path.unlink(missing_ok=True)  # while it is held: who waits for it makes a new one
                if not found:
                    folder.rmdir()
        lock.release()


def _sign(descriptor: int) -> None:
    """Write who holds the lock, through its own descriptor: closing another one may release it on NFS."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"pid {os.getpid()} on host {socket.gethostname()}\n".encode(), 0)


def _holder(path: Path) -> str:
    try:
        text = path.read_text("utf-8", errors="replace").strip()
    except OSError:
        return ""
    return f" ({text})" if text else ""
