"""Names and checks of paths, and atomic writes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sts_lightning.errors import ConfigError, StorageError


def last_name(path: str | Path) -> str:
    """Return the last part of a path; of ``.`` and ``..``, the name of the folder. Links keep their names."""
    return Path(os.path.abspath(path)).name  # noqa: PTH100  # resolve() would follow links


def check_output(option: str, path: Path | None, *others: Path | None, suffix: str | None = None) -> None:
    """Check that an output file can be written, before any work is done.

    Args:
        option: Command-line option, for the message.
        path: Output file, or None if there is none.
        *others: Further files of the command, which it must not overwrite.
        suffix: Required end of the name, such as ``.png``.

    Raises:
        ConfigError: The path is a folder, a device or one of the others, its own folder does not exist, or
            its name has another end.
    """
    if path is None:
        return
    key = option.lstrip("-")
    if path.is_dir():
        raise ConfigError(f"{option} {path} is a folder; give the name of a file.", key=key)
    if path.exists() and not path.is_file():  # an atomic write would replace a device such as /dev/null
        raise ConfigError(f"{option} {path} is not a regular file; give the name of one.", key=key)
    if not path.parent.is_dir():
        raise ConfigError(f"{option} {path}: the folder {path.parent} does not exist.", key=key)
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
    """Yield the name of a temporary file, which takes the place of a file unless an error is raised.

    Raises:
        StorageError: The path is a device, a pipe or a socket, whose place no file must take.
        OSError: The file cannot be written; the error names it, not the temporary one, also where the disk is
            full, of which the system names no file.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise StorageError(f"{path} is not a regular file; give the name of one.")
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield temporary
        temporary.replace(path)
    except OSError as error:
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
    above = next(parent for parent in folder.absolute().parents if parent.exists())
    try:
        with tempfile.TemporaryDirectory(dir=above, prefix=f".{folder.name}."):
            pass
    except OSError as error:
        raise ConfigError(f"{folder} cannot be made ({error.strerror}); choose another folder.") from error


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder, which becomes the new one unless an error is raised.

    Its files get the permissions of new files, which safetensors keeps from all but their owner.

    Raises:
        ConfigError: The folder has come to exist meanwhile.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
        inside = Path(temporary) / folder.name
        inside.mkdir()
        yield inside
        mode = inside.stat().st_mode & 0o666
        for path in inside.rglob("*"):
            if path.is_file() and not path.is_symlink():
                path.chmod(mode)
        try:
            inside.rename(folder)
        except OSError as error:
            if not folder.exists():
                raise
            raise ConfigError(f"{folder} exists by now; choose another folder.") from error
