"""What a command says and returns when it ends early."""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from typing import NoReturn

from sts_lightning.core.errors import InterruptedRunError, MemoryShortageError, StorageError, UserError
from sts_lightning.core.processes import is_first_process, requeue
from sts_lightning.core.signals import signal_name, stopping_signal, unmasked

STORAGE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG)
"""errno values of a write that failed, of which the system names no file."""


def asks_for_traces(arguments: Iterable[str]) -> bool:
    """Return whether a command line asks for stack traces, before or after its options became settings."""
    return any(argument in ("--debug", "traceback=true") for argument in arguments)


@contextlib.contextmanager
def reporting(traces: bool, on_shortage: str | None = None) -> Iterator[None]:
    """Turn an error that is none of the code into one message and an exit status.

    It stands around a whole command, once. Statuses: 1 error, 3 the run has already finished, 75 another
    process runs in the folder, 128 + N stopped by signal N (130 for Ctrl-C, 143 for SIGTERM).

    Args:
        traces: Whether to show stack traces instead.
        on_shortage: What to do with the command's own options where memory runs out; None for the hint of the
            error, which is that of ``eval``.
    """
    logging.raiseExceptions = False  # a run goes on without the reader of its log, as in `| head`
    if isinstance(sys.stdout, io.TextIOWrapper):  # on Windows a file's encoding lacks most characters
        sys.stdout.reconfigure(encoding="utf-8", errors=sys.stdout.errors)
    try:
        with unmasked():
            yield
        sys.stdout.flush()
    except MemoryShortageError as error:
        _exit(error.advising(on_shortage), traces)
    except UserError as error:
        _exit(error, traces)
    except KeyboardInterrupt as error:  # a run that has begun raises its own error
        number = stopping_signal(error) or signal.SIGINT
        message = f"stopped by {signal_name(number)}. The same command starts it again."
        _exit(InterruptedRunError(message, number), traces)
    except BrokenPipeError:
        try:
            print(flush=True)
        except BrokenPipeError:  # the reader of the output has ended, as in `| head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        raise  # of another pipe
    except OSError as error:
        if error.filename is None and error.errno not in STORAGE:  # of a connection or a process
            raise
        where = f"{error.filename2 or error.filename}: " if error.filename else ""
        _exit(StorageError(f"{where}{error.strerror}."), traces)
    except (RuntimeError, MemoryError) as error:
        from sts_lightning.models.compute.budget import is_out_of_memory, shortage  # loads torch

        if not is_out_of_memory(error):
            raise
        _exit(shortage(error).advising(on_shortage), traces)


def _exit(error: UserError, traces: bool) -> NoReturn:
    if traces:
        raise error
    if not isinstance(error, InterruptedRunError):
        if error.exit_status == 1:
            sys.exit(f"error: {error}")
        print(f"error: {error}", file=sys.stderr)
    elif is_first_process():  # of those that train one run
        print(error, file=sys.stderr)
        message = requeue(error.number)
        if message is not None:
            print(message, file=sys.stderr)
    sys.exit(error.exit_status)
