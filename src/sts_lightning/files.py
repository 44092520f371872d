"""Files that are either there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a file under a temporary name and rename it, so that no reader ever sees half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if isinstance(content, str):
            temporary.write_text(content, encoding="utf-8")
        else:
            temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
