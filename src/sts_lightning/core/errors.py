"""Errors of users, reported as one message without a traceback; checks of arguments; numbers in messages."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args


class UserError(Exception):
    """Error outside the code: what was wrong, where, and what to do.

    Args:
        message: Description of the problem and its place.
        key: Dotted key of the setting at fault, if any.
        hint: Suggested fix, shown after the message.
    """

    exit_status: int = 1
    """Exit status of a command that fails with this error."""

    def __init__(self, message: object = "", key: str | None = None, hint: str | None = None) -> None:
        super().__init__(f"{message} {hint}" if hint else message)
        self.key = key
        self.hint = hint


@contextmanager
def at_setting(key: str) -> Iterator[None]:
    """Give an error without a key that of a setting, such as an error about the folder that it names."""
    try:
        yield
    except UserError as error:
        error.key = error.key or key
        raise


def line_or_row(path: str | Path) -> str:
    """Return what a number names in a file: a row of a Parquet file or of the hub, which have no lines."""
    name = str(path).lower()
    return "row" if name.endswith((".parquet", ".parquet.gz")) or ", split " in name else "line"


class ConfigError(UserError):
    """Invalid configuration value or combination of values."""


class DataError(UserError):
    """Missing or malformed data file.

    Args:
        message: Description of what was expected, and what was there instead.
        path: Path of the file.
        line: Number of the malformed line, from 1, or of the row of a Parquet file, from 0.
        key: As in `UserError`.
        hint: As in `UserError`.
    """

    def __init__(
        self,
        message: str,
        path: str | Path | None = None,
        line: int | None = None,
        key: str | None = None,
        hint: str | None = None,
    ) -> None:
        where = (
            "" if path is None else f"{path}: " if line is None else f"{path}, {line_or_row(path)} {line}: "
        )
        super().__init__(f"{where}{message}", key, hint)
        self.path = path
        self.line = line

    def add_hint(self, hint: str) -> None:
        """Add a suggested fix."""
        self.hint = f"{self.hint} {hint}" if self.hint else hint
        self.args = (f"{self} {hint}",)


class CheckpointError(UserError):
    """Checkpoint or run folder that is missing, broken, or belongs to another model."""


class UntrustedError(CheckpointError):
    """Run folder that asks to run code, or to write elsewhere, without the user's consent."""


class RunningElsewhereError(UserError):
    """Folder in which another process is at work."""

    exit_status = 75  # EX_TEMPFAIL: the same command may succeed later


class FetchError(UserError):
    """Download that failed, or that is not what was published."""


class TrainingError(UserError):
    """Training that cannot continue, for example because the loss is not finite."""


class MemoryShortageError(UserError):
    """Memory, of a GPU or the host, that does not suffice for the model or for one sentence."""

    def advising(self, hint: str | None) -> MemoryShortageError:
        """Return the error with another hint, such as that of a command; None keeps its own."""
        message = str(self).removesuffix(f" {self.hint}")
        return self if hint is None else MemoryShortageError(message, self.key, hint)


class StorageError(UserError):
    """Failed write: the disk is full or read-only, or permission is missing."""


class FailedJobsError(UserError):
    """Sweep in which some jobs failed; the others have their results."""


class InterruptedRunError(UserError):
    """Run stopped by a signal; its last checkpoint can be resumed.

    Args:
        message: Description of the interrupted run, and how to resume or restart it.
        number: The signal; the exit status is 128 plus its number, as in a shell.
    """

    def __init__(self, message: str, number: signal.Signals = signal.SIGINT) -> None:
        super().__init__(message)
        self.number = number
        self.exit_status = 128 + number


def counted(count: int, noun: str) -> str:
    """Return a number and its noun, whose plural ends with -s, as in ``1 run`` and ``1,200 runs``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def check_range(name: str, value: int, minimum: int, maximum: int) -> None:
    """Raise a `ValueError` that names the argument if its value is outside a range, bounds included."""
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {value}.")
    if value > maximum:
        raise ValueError(f"{name} must be at most {maximum:,}, got {value}.")


def check_choice(name: str, value: object, choices: Any) -> None:
    """Raise `ValueError` for an argument, by its name, that is none of the values of a `Literal`."""
    if value not in get_args(choices):
        raise ValueError(f"{name} must be one of {', '.join(get_args(choices))}, got {value!r}.")
