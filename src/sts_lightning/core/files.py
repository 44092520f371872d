"""Checks of paths, atomic writes of files and folders, and locked files."""

from __future__ import annotations

import errno
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from sts_lightning.core.errors import ConfigError, RunningElsewhereError, StorageError

log = logging.getLogger(__name__)


def last_name(path: str | Path) -> str:
    """Return the last name of a path; of ``.`` and ``..``, that of the folder. Links keep their names."""
    return Path(os.path.abspath(path)).name  # noqa: PTH100  # resolve() would follow links


def check_output(option: str, path: Path | None, *others: Path | None, suffix: str | None = None) -> None:
    """Check that an output file can be written, before any work is done.

    Args:
        option: Command-line option, for the message.
        path: Output file, or None if there is none.
        *others: Further files of the command, which it must not overwrite.
        suffix: Required end of the name, such as ``.png``.

    Raises:
        ConfigError: The path is a folder, a device or one of the others, its folder does not exist, or its
            name has another end.
    """
    if path is None:
        return
    key = option.lstrip("-")
    # An atomic write would replace a device such as /dev/null.
    if not path.parent.is_dir() or (path.exists() and not path.is_file()):
        raise ConfigError(f"{option} {path}: give the name of a file, in a folder that exists.", key=key)
    if suffix is not None and path.suffix != suffix:
        raise ConfigError(f"{option} must name a {suffix} file, got {path}.", key=key)
    if any(other is not None and os.path.realpath(path) == os.path.realpath(other) for other in others):
        raise ConfigError(f"{option} {path} would overwrite another file of this command.", key=key)


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a file under a temporary name and rename it, so that readers never see a partial file."""
    with replacing(path) as temporary:
        if isinstance(content, str):
            temporary.write_text(content, encoding="utf-8")
        else:
            temporary.write_bytes(content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the name of a temporary file, which replaces a file unless an error is raised.

    Raises:
        StorageError: The path is a device, a pipe or a socket, which must not be replaced.
        OSError: The file cannot be written.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise StorageError(f"{path} is not a regular file; give the name of one.")
    temporary = path.with_name(f".{path.name}.{os.getpid()}")  # another process may write the same file
    try:
        yield temporary
        temporary.replace(path)
    except OSError as error:
        # The user knows the file, not the temporary one; and of a full disk the system names no file at all.
        other = error.filename is not None and Path(error.filename) != temporary
        if other or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def check_new_folder(folder: Path) -> None:
    """Check that a folder can be created, without creating it.

    Raises:
        ConfigError: It exists or cannot be created.
    """
    if folder.exists():
        raise ConfigError(f"{folder} exists already; choose another folder.")
    # Only an attempt shows whether a folder can be made: the disk may be read-only, or a limit reached.
    above = next(parent for parent in folder.absolute().parents if parent.exists())
    try:
        with tempfile.TemporaryDirectory(dir=above, prefix=f".{folder.name}."):
            pass
    except OSError as error:
        raise ConfigError(f"{folder} cannot be made ({error.strerror}); choose another folder.") from error


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder, which becomes the new one unless an error is raised.

    Raises:
        OSError: Another process has created the folder in the meantime.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
        inside = Path(temporary) / folder.name
        inside.mkdir()
        yield inside
        # safetensors writes files that only their owner may read; these get the permissions of new files.
        mode = inside.stat().st_mode & 0o666
        for path in inside.rglob("*"):
            if path.is_file() and not path.is_symlink():
                path.chmod(mode)
        inside.rename(folder)


@contextmanager
def locked_file(
    path: Path,
    message: Callable[[], str],
    timeout: float = 0.0,
    on_acquired: Callable[[int], None] | None = None,
) -> Iterator[None]:
    """Create and lock a file; warn where the file system has no locks.

    Args:
        path: The file.
        message: Function that returns the message of the error if another process holds the lock.
        timeout: Seconds to wait for the lock.
        on_acquired: Function that is called with the descriptor of the locked file.

    Raises:
        RunningElsewhereError: Another process holds the lock.
        OSError: The file cannot be written.
    """
    lock = FileLock(path, timeout=timeout, on_acquired=on_acquired)
    try:
        lock.acquire()
    except Timeout:
        raise RunningElsewhereError(message()) from None
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
            raise
        path.unlink(missing_ok=True)
        log.warning("%s: no locks on this file system; make sure that no other process uses it.", path.parent)
    try:
        yield
    finally:
        lock.release()
