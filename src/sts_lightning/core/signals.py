"""Stop signals: raised as exceptions while a command runs, or recorded until a training step is finished."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from sts_lightning.core.errors import UserError

STOPPING = tuple(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)  # Windows has the first one only
)
"""Signals that end the process without a message by default; Python itself raises Ctrl-C.

A terminal that is closed sends SIGHUP; SLURM announces a time limit by one of the last two. A signal that is
ignored, as SIGHUP under nohup, stays ignored.
"""

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
"""Signal that ends a process at once."""

PARENT = "STS_LIGHTNING_PARENT"
"""Environment variable of a job of a sweep: the number of the process that started it."""

_received: signal.Signals | None = None
_listener: int | None = None  # id of the listening process, to tell it from its forked children


class Stopped(KeyboardInterrupt):
    """A stop signal arrived.

    A subclass of `KeyboardInterrupt`, because libraries clean up after one and do not treat it as an error.

    Args:
        number: The signal.
    """

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.number = number


def signal_name(number: signal.Signals) -> str:
    """Return the name of a signal for messages: ``Ctrl-C`` for SIGINT."""
    return "Ctrl-C" if number == signal.SIGINT else number.name


def stopping_signal(error: BaseException | None) -> signal.Signals | None:
    """Return the signal that led to an exception, or None.

    Args:
        error: A `KeyboardInterrupt`, or the exception a library raised for it: Lightning raises `SystemExit`.
    """
    while error is not None:
        if isinstance(error, Stopped):
            return error.number
        if isinstance(error, KeyboardInterrupt):
            return signal.SIGINT
        error = error.__cause__ or error.__context__
    return None


@contextlib.contextmanager
def listening() -> Iterator[None]:
    """Raise `Stopped` at the first stop signal; ignore later ones, which would interrupt the clean-up.

    Handlers installed by others are kept. Only the main thread can listen.
    """
    global _received, _listener
    handled = []
    if threading.current_thread() is threading.main_thread():
        handled = [number for number in STOPPING if signal.getsignal(number) is signal.SIG_DFL]
    if not handled:
        yield
        return
    _received, _listener = None, os.getpid()  # before the handlers, which read both
    for number in handled:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        _listener = None
        # A process that is cleaning up at its end has nothing left to say about Ctrl-C.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_DFL)
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def unmasked() -> Iterator[None]:
    """Raise the stop in place of an error that it caused, as in a library that fails while it cleans up.

    A `UserError` or an `OSError` stays, since the user has to know of it.
    """
    try:
        yield
    except (UserError, OSError):
        raise
    except Exception as error:
        number = stopping_signal(error)
        if number is None:
            raise
        raise Stopped(number) from error


PR_SET_PDEATHSIG = 1
"""Option of Linux's prctl: the signal that a process gets when its parent ends."""


def stop_with_parent() -> None:
    """Let a job of a sweep get SIGTERM when the sweep's process ends, even if that was killed.

    Only Linux has such a signal. On several devices the run's first process ends the others.

    Raises:
        Stopped: The sweep's process has ended already.
    """
    parent = os.environ.get(PARENT)
    if parent is None or "LOCAL_RANK" in os.environ or sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))
    if os.getppid() != int(parent):
        raise Stopped(signal.SIGTERM)


def listen_again() -> None:
    """Listen to SIGTERM again after a library has installed a handler."""
    if _listener == os.getpid() and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _stop)


class StopRequest:
    """The first stop signal that arrived, recorded so that the current step can finish.

    The same signal again raises `Stopped` at once. Other signals are ignored from then on, since a cluster
    may send different ones for a single stop.

    Args:
        announce: Function that is called with the first signal.

    Attributes:
        number: The signal, or None.
    """

    def __init__(self, announce: Callable[[signal.Signals], None]) -> None:
        self.number: signal.Signals | None = None
        self._announce = announce
        self._previous: dict[signal.Signals, Any] = {}

    def listen(self) -> None:
        """Install the handlers, which only the main thread can do."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, *STOPPING):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._handle)

    def restore(self) -> None:
        """Restore the previous handlers."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.number is None:
            self.number = signal.Signals(number)
            self._announce(self.number)
        elif self.number == number:
            raise Stopped(self.number)


def _stop(number: int, frame: FrameType | None) -> None:
    global _received
    if os.getpid() != _listener:  # a forked worker of a data loader inherits the handler, and ends at once
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        return
    if _received is None:
        _received = signal.Signals(number)
        raise Stopped(_received)
