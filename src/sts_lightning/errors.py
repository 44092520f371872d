"""Errors that a user can mend: shown as one message, without a stack trace."""

from __future__ import annotations

import signal
from pathlib import Path


class UserError(Exception):
    """Something outside the code is wrong; the message says what, where and what to do.

    Attributes:
        exit_status: Exit status of a command that ends with it.
    """

    exit_status: int = 1


class ConfigError(UserError):
    """A configuration value, or a combination of values, that cannot work."""


class DataError(UserError):
    """A data file that cannot be used.

    Args:
        message: What was expected and what was found.
        path: The file.
        line: The 1-based line in the file, where one line is to blame.
    """

    def __init__(self, message: str, path: str | Path | None = None, line: int | None = None) -> None:
        where = "" if path is None else f"{path}: " if line is None else f"{path}, line {line}: "
        super().__init__(f"{where}{message}")


class CheckpointError(UserError):
    """A checkpoint or run folder that is missing, broken, or of another model."""


class UntrustedError(CheckpointError):
    """A run folder that asks for code, or for writing elsewhere, that the user has not allowed."""


class FinishedRunError(CheckpointError):
    """The run of a folder has its results already; there is nothing left to do."""

    exit_status = 3


class RunningElsewhereError(UserError):
    """Another process is running in the run folder."""

    exit_status = 75  # EX_TEMPFAIL: the same command can work later


class TrainingError(UserError):
    """Training cannot go on, for example because the loss is not finite."""


class StorageError(UserError):
    """A file could not be written: the disk is full, read-only or not the user's."""


class FailedJobsError(UserError):
    """Some jobs of a sweep failed; the others have their results."""


class InterruptedRunError(UserError):
    """A signal stopped the run; what has been saved can be resumed.

    Args:
        message: What was stopped, and how it is resumed or started again.
        number: The signal; the exit status is 128 plus its number, as a shell has it.
    """

    def __init__(self, message: str, number: signal.Signals = signal.SIGINT) -> None:
        super().__init__(message)
        self.number = number
        self.exit_status = 128 + number
