"""The command that fetches a missing file, for error messages."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from sts_lightning.core.errors import DataError

F = TypeVar("F", bound=Callable[..., Any])


def default_root() -> str:
    """Return the default data root: STS_DATA_ROOT, or ``data``."""
    return os.environ.get("STS_DATA_ROOT", "data")


def fetch_hint(part: str, root: str | Path) -> str:
    """Return the sentence that says how to fetch a part of the data into a data root."""
    option = "" if str(root) == default_root() else f" --root {root}"
    return f"`sts-lightning data get {part}{option}` fetches it."


def fetched_by(part: str) -> Callable[[F], F]:
    """Decorate a function of a data root, so that its errors on missing files name the fetching command."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except DataError as error:
                if error.hint is None and error.path is not None and not Path(error.path).exists():
                    root = kwargs["data_root"] if "data_root" in kwargs else args[0]
                    error.add_hint(fetch_hint(part, root))
                raise

        return cast("F", wrapped)

    return decorate
