"""Checks of output paths, and atomic writes."""

from __future__ import annotations

import os
from pathlib import Path

from sts_lightning.errors import ConfigError


def check_output(option: str, path: Path | None) -> None:
    """Check that an output file can be written, before any work is done.

    Args:
        option: Command-line option, for the message.
        path: Output file, or None if there is none.

    Raises:
        ConfigError: The path is a folder, or its own folder does not exist.
    """
    if path is not None and path.is_dir():
        raise ConfigError(f"{option} {path} is a folder; give the name of a file.")
    if path is not None and not path.parent.is_dir():
        raise ConfigError(f"{option} {path}: the folder {path.parent} does not exist.")


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a file under a temporary name and rename it, so that readers never see a partial file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if isinstance(content, str):
            temporary.write_text(content, encoding="utf-8")
        else:
            temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
