"""Signals that ask a process to stop, raised as exceptions wherever it is."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

STOPPING = (signal.SIGTERM, signal.SIGUSR2)
"""Signals whose default is to end the process without a word; Python raises Ctrl-C itself."""

_received: signal.Signals | None = None
_listener: int | None = None  # the process that listens; its forked children do not


class Stopped(KeyboardInterrupt):
    """A signal other than Ctrl-C asked the process to stop.

    A `KeyboardInterrupt`, because libraries clean up after one and do not swallow it as an error.

    Args:
        number: The signal.
    """

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.number = number


def signal_name(number: signal.Signals) -> str:
    """The signal in a user's words: ``Ctrl-C`` or the name of the signal."""
    return "Ctrl-C" if number == signal.SIGINT else number.name


def stopping_signal(error: BaseException | None) -> signal.Signals | None:
    """The signal that led to an exception, or None.

    Args:
        error: A `KeyboardInterrupt`, or what a library has turned it into: Lightning raises `SystemExit`.
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
    """Raise `Stopped` at the first stopping signal; ignore the later ones, which would cut the clean-up.

    A handler that somebody else installed is left alone. Only the main thread can listen.
    """
    global _received, _listener
    mine = []
    if threading.current_thread() is threading.main_thread():
        mine = [number for number in STOPPING if signal.getsignal(number) is signal.SIG_DFL]
    if not mine:
        yield
        return
    _received, _listener = None, os.getpid()
    for number in mine:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        _listener = None
        for number in mine:
            signal.signal(number, signal.SIG_DFL)


def take_back() -> None:
    """Listen to SIGTERM in place of a library that has put its own handler in front."""
    if _listener == os.getpid() and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    global _received
    if os.getpid() != _listener:  # a worker process that was forked from the listener
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        return
    if _received is None:
        _received = signal.Signals(number)
        raise Stopped(_received)
