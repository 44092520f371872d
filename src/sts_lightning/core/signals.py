"""Stop signals: raised as exceptions while a command runs, or recorded until a training step is finished.

At the end what follows one in a batch job of SLURM: the job is queued again, and finds the folder of its run.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import hashlib
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
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


INTERACTIVE = ("bash", "interactive")
"""Names of jobs that SLURM gives to a shell."""

ANNOUNCEMENTS = tuple(getattr(signal, name) for name in ("SIGUSR1", "SIGUSR2") if hasattr(signal, name))
"""Signals by which SLURM announces a time limit (``--signal``); scancel and a preemption send SIGTERM."""

SCONTROL = 60.0
"""Seconds that scontrol may take."""


def batch_job() -> str | None:
    """Return the number of the batch job that this process belongs to, as scontrol takes it.

    It is None outside SLURM, in an interactive job, and in a job of a sweep, whose launcher starts it again.
    """
    if PARENT in os.environ or os.environ.get("SLURM_JOB_NAME") in INTERACTIVE:
        return None
    array, task = (os.environ.get(f"SLURM_ARRAY_{name}_ID") for name in ("JOB", "TASK"))
    return f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID")


def requeued() -> bool:
    """Return whether SLURM has started the batch job again, with the commands of its earlier start."""
    return batch_job() is not None and os.environ.get("SLURM_RESTART_COUNT", "0") not in ("", "0")


def timed_folder(parent: str, claim: bool = True) -> str:
    """Make a folder named by the time, with a number where another command of the same second has made it.

    Args:
        parent: Folder of the run folders.
        claim: Whether to make it, as the first process of a run does; a further one does not take another.
    """
    first = f"{parent}/{time.strftime('%Y-%m-%d_%H-%M-%S')}"
    for number in itertools.count(1):
        folder = first if number == 1 else f"{first}-{number}"
        try:
            if claim:
                Path(folder).mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError:  # Hydra meets it as well, where it has a message
            pass
        break
    return folder


def new_folder(
    parent: str,
    finished: Callable[[Path], bool],
    arguments: Sequence[str] | None = None,
    claim: bool = True,
) -> str:
    """Return the folder of a new run, see `timed_folder`, or, in a batch job, so that a later start finds it.

    Where the same command has finished in the same job, as in an allocation in which one works, the name has
    a number. A requeued job takes the last folder, which its earlier start left.

    Args:
        parent: Folder of the run folders.
        finished: Whether the run in a folder has finished.
        arguments: Arguments of the command, of which a batch job may have several; by default those of this
            process.
        claim: Whether this process makes a folder that is named by the time.
    """
    job = batch_job()
    if job is None:
        return timed_folder(parent, claim)
    text = "\0".join(sys.argv[1:] if arguments is None else arguments)
    first = f"{parent}/slurm-{job}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"
    folder, number = first, 1
    while finished(Path(folder)):
        number += 1
        later = f"{first}-{number}"
        if requeued() and not Path(later).exists():
            break
        folder = later
    return folder


def requeue(number: signal.Signals) -> str | None:
    """Queue the batch job again if a signal announced its time limit; SLURM then ends this process.

    Args:
        number: Signal that stopped the run.

    Returns:
        What was done or went wrong, for the user; None if there was nothing to do.
    """
    job = batch_job()
    if job is None or number not in ANNOUNCEMENTS:
        return None
    command = ["scontrol", "requeue", job]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SCONTROL, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{' '.join(command)} failed: {error}"
    if done.returncode:
        return f"{' '.join(command)} failed: {(done.stderr or done.stdout).strip()}"
    return f"SLURM job {job} is queued again and will resume."
