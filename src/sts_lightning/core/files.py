"""Checks of paths, atomic writes of files and folders, locked files, and strict reading of JSON."""

from __future__ import annotations

import errno
import json
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

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
    """Reject a folder that exists already."""
    if folder.exists():
        raise ConfigError(f"{folder} exists already; choose another folder.")


@contextmanager
def new_folder(folder: Path, replace: bool = False) -> Iterator[Path]:
    """Yield a temporary folder, which becomes the new one unless an error is raised.

    Args:
        folder: The folder.
        replace: Whether it takes the place of one of that name.

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
        if replace and folder.is_dir():  # no system call exchanges folders everywhere
            folder.rename(Path(temporary) / "before")
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


def read_json(path: Path, type_: Any = Any) -> Any:
    """Read a JSON file whose content has a type; see `as_type`.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not valid JSON (see `parse_json`), has a number that is not finite, or has another
            content; the message names the line or the key.
    """
    text = path.read_text("utf-8-sig")  # Windows editors begin a file with a byte order mark
    if not text.strip():
        raise ValueError("the file is empty")
    content = parse_json(text)
    check_finite(content)
    return as_type(content, type_)


def parse_json(text: str) -> Any:
    """Parse JSON in which no object has a key twice; ``NaN`` and ``Infinity`` are allowed, as in Python.

    Raises:
        ValueError: It is not valid JSON, is nested too deeply, or has a key twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_distinct_keys)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} occurs twice")
    return values


def check_finite(values: Any, key: str = "") -> None:
    """Reject NaN, infinity and whole numbers beyond a float in nested dictionaries and lists.

    Raises:
        ValueError: The message names the key.
    """
    if isinstance(values, dict | list):
        for name, value in values.items() if isinstance(values, dict) else enumerate(values):
            check_finite(value, f"{key}.{name}" if key else str(name))
    elif isinstance(values, int | float) and not abs(values) <= sys.float_info.max:
        raise ValueError(f"{key or 'the content'} is {str(values)[:40]}, which is no finite number")


def as_type(value: Any, type_: Any) -> Any:
    """Return a JSON value as a type; only whole numbers are converted, to floats, and lists, to tuples.

    Args:
        value: Value from `parse_json`.
        type_: A type that pydantic reads: a plain type, a dataclass, a TypedDict, a number with bounds of
            `annotated_types`.

    Raises:
        ValueError: The value has another type; the message begins with the key.
    """
    if type_ is Any:
        return value
    from pydantic import ValidationError  # imported late: a command that rejects a typo needs none of it

    try:
        # From JSON, since strict mode rejects a list for a tuple among Python's values.
        return _adapter(type_).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])) or "the content"
        raise ValueError(f"{key}: {first['msg']}, got {str(first['input'])[:60]}") from None


@cache  # an adapter builds its validator anew
def _adapter(type_: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(type_)
