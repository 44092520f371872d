"""The command that fetches a missing file, for error messages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sts_lightning.core.errors import DataError


def default_root() -> str:
    """Return the default data root: STS_DATA_ROOT, or ``data``."""
    return os.environ.get("STS_DATA_ROOT", "data")


def fetch_hint(part: str, root: str | Path) -> str:
    """Return the sentence that says how to fetch a part of the data into a data root."""
    option = "" if str(root) == default_root() else f" --root {root}"
    return f"`sts-lightning data get {part}{option}` fetches it."


@contextmanager
def fetched_by(part: str, root: str | Path) -> Iterator[None]:
    """Name the command that fetches a part of the data in errors on missing files."""
    try:
        yield
    except DataError as error:
        if error.hint is None and error.path is not None and not Path(error.path).exists():
            error.add_hint(fetch_hint(part, root))
        raise
