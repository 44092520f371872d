"""What went wrong with a data set of the hub, told from the errors of the libraries."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from pyarrow.lib import ArrowException

from sts_lightning.errors import DataError, StorageError, UserError

LOGIN = "log in with `hf auth login`, or set HF_TOKEN"

NETWORK = "Check the network, HF_ENDPOINT and HF_HUB_OFFLINE, or give a folder with its files."

KINDS = (
    (
        "Dataset scripts",
        "the data set is a loading script, which is never executed",
        "Its tables may be at data.revision=refs/convert/parquet.",
    ),
    ("gated dataset", "the data set is gated", f"Accept its terms on its page on the hub, then {LOGIN}."),
    (
        "doesn't exist on the Hub",
        "there is no such folder, and no such data set on the hub, or it is private",
        f"Check the spelling (owner/name); for a private one, {LOGIN}.",
    ),
    ("any data files", "it has no data files", None),
    ("any supported data files", "it has no data files", None),
    ("(supported) data files", "it has no data files", None),
    ("'recorded': SplitInfo", "its number of rows is not the one that its README.md states", None),
)
"""Part of the library's message, our message and a hint."""


FILE_KINDS = (
    (("got 0)", "raised StopIteration", "No columns to parse"), "it has no rows"),
    (("Multiple matches for FieldRef",), "a column occurs more than once"),
    (
        ("column names don't match", "must have the same columns", "CastError"),
        "its columns are not those of the other files of the data set",
    ),
    (
        ("as a scalar of type", "was truncated converting"),
        "its values are of another kind than those of the other files of the data set",
    ),
    (("_csv", "expected after"), "it is not valid CSV: a quote is misplaced or missing"),
    (("repo card metadata", "yaml"), "its README.md has settings between --- that are no YAML mapping"),
)
"""Parts of the libraries' errors about a file, and our message."""


class Reading(Protocol):
    """What is known of the files of a data set while it is read; see `HubFiles`."""

    current: str | None

    @property
    def first(self) -> str | None:
        """The file from whose header the library takes the columns."""


@contextmanager
def explained(path: str, revision: str | None = None, files: Reading | None = None) -> Iterator[None]:
    """Turn the errors of the library into those for the user.

    Args:
        path: Name of the data set.
        revision: Revision that was asked for.
        files: Its files, of which the error names the one that was being read.

    Raises:
        DataError: The data set does not exist, cannot be reached or is broken.
        StorageError: The disk is full.
    """
    try:
        yield
    except (UserError, MemoryError):
        raise
    except Exception as error:  # each library has errors of its own for damaged files
        raise explain(error, path, revision, files) from error


def explain(
    error: Exception, path: str, revision: str | None = None, files: Reading | None = None
) -> UserError:
    """Return the error for the user; see `explained`."""
    chain = _chain(error)
    text = " ".join(str(error).split())
    own = next((cause for cause in chain if isinstance(cause, UserError)), None)
    if own is not None:
        return own
    if any(isinstance(cause, OSError) and cause.errno == errno.ENOSPC for cause in chain):
        return StorageError(f"{path}: the disk of the cache is full.", hint="Set HF_HOME to another one.")
    if revision is not None and text.startswith("Revision"):
        return DataError(f"it has no revision {revision}.", path, key="data.revision")
    for part, message, hint in KINDS:
        if part in text:
            return DataError(f"{message}.", path, key="data.path", hint=hint)
    cause = next((cause for cause in reversed(chain) if str(cause)), error)
    told = f"{type(cause).__name__}: {' '.join(str(cause).split())[:200]}"
    if any(_is_transport(cause) for cause in chain):
        return DataError(f"the hub cannot be reached ({told}).", path, key="data.path", hint=NETWORK)
    whole = f"{text} {told}) {type(cause).__module__}"
    found = next(
        (why for parts, why in FILE_KINDS if any(part in whole for part in parts)), "it cannot be read"
    )
    return DataError(f"{found} ({told}).", _place(path, cause, files), key="data.path")


def _place(path: str, cause: BaseException, files: Reading | None) -> str:
    """Return the name of a data set and of the file of which an error is."""
    if files is None:
        return path
    file = files.current or (files.first if isinstance(cause, ArrowException) else None)
    return path if file is None else f"{path}, {file}"


def suggest(name: str, known: Sequence[str], otherwise: str | None = None) -> str | None:
    """Return a question with the names closest to a name or with the only one, or another hint."""
    close = difflib.get_close_matches(name, known, n=3) or (list(known) if len(known) == 1 else [])
    return f"Did you mean {' or '.join(close)}?" if close else otherwise


def _chain(error: BaseException | None) -> list[BaseException]:
    """Return an error and its causes, the first cause last."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__
    return chain


def _is_transport(error: BaseException) -> bool:
    """Return whether an error is one of the network; the HTTP libraries share the name of its base class."""
    named = any(kind.__name__ == "TransportError" for kind in type(error).__mro__)
    return named or isinstance(error, ConnectionError | TimeoutError)
