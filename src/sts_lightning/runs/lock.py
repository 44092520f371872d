"""What a process may write to: a run folder that no other one writes to, without links to elsewhere."""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from sts_lightning.core.errors import UntrustedError
from sts_lightning.core.files import locked_file

LOCK = ".lock"
"""Name of the lock file. The system releases the lock when the process ends; the file may remain."""

PATIENCE = 0.5
"""Seconds to wait for a process that is about to exit."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a run folder. A folder in which nothing was written is restored to its earlier state.

    Args:
        folder: Path of the run folder, created if necessary.

    Raises:
        RunningElsewhereError: Another process holds the lock.
        OSError: The lock file cannot be written, or is a link.
    """
    path = folder / LOCK
    existed = folder.is_dir()
    folder.mkdir(parents=True, exist_ok=True)

    def busy() -> str:
        who = f" ({name})" if (name := holder(folder)) else ""
        return (
            f"another process is running in {folder}{who}; wait for it, or choose another folder "
            "with hydra.run.dir=..."
        )

    with locked_file(path, busy, PATIENCE, _sign):
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                if [entry.name for entry in folder.iterdir()] in ([LOCK], []):
                    path.unlink(missing_ok=True)  # while still locked: a waiting process creates a new one
                    if not existed:
                        folder.rmdir()


def _sign(descriptor: int) -> None:
    """Write the holder of the lock through its own descriptor: closing another one may release it on NFS."""
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.write(descriptor, f"pid {os.getpid()} on host {socket.gethostname()}\n".encode())


def holder(folder: Path) -> str:
    """Return the process that locked a run folder last; empty if that is not known."""
    try:
        return (folder / LOCK).read_text("utf-8", errors="replace").strip()
    except OSError:
        return ""


def is_locked(folder: Path) -> bool:
    """Return whether a process is running in a run folder; nothing is written."""
    path = folder / LOCK
    if not path.is_file():
        return False
    try:
        with FileLock(path, timeout=0):
            return False
    except Timeout:
        return True
    except OSError:  # no locks here, or no permission to take one
        return False


CHECKPOINT = re.compile(r"\.?(best|last|final|step_[0-9]+)(\.ckpt)?(\.\w+)?")
"""Name of a checkpoint or of the model folder of a step, or of one that a process was writing."""


def check_links(run: Path) -> None:
    """Reject a run folder with a link to elsewhere: resuming the run would write and remove files through it.

    ``checkpoints`` may lie elsewhere, as on the fast disk of a cluster: in a folder of the same user that
    holds checkpoints alone, and not in another run.

    Raises:
        UntrustedError: A file or folder in it is such a link.
    """
    for path in run.rglob("*"):
        target = Path(os.path.realpath(path))  # unlike resolve, this bears a link to itself
        if not path.is_symlink() or target.is_relative_to(os.path.realpath(run)):
            continue
        user = getattr(os, "getuid", lambda: 0)()
        if not (
            path.name == "checkpoints"
            and target.is_dir()
            and path.lstat().st_uid == target.stat().st_uid == user
            and all(CHECKPOINT.fullmatch(inside.name) for inside in target.iterdir())
            and not any(inside.is_symlink() for inside in target.rglob("*"))
            and not (target.parent / "config.yaml").exists()
        ):
            raise UntrustedError(
                f"{path} links to {target}, outside the run folder; remove the link. Checkpoints may lie "
                "elsewhere in an existing folder of yours that holds nothing but checkpoints of this run."
            )
