"""Encoding by several processes, each with the same encoder on a device of its own."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch

from sts_lightning.errors import UserError
from sts_lightning.evaluation.dealing import dealt, in_order
from sts_lightning.evaluation.encoding import Encoder
from sts_lightning.interrupts import KILL, end_with

PIECE = 4096
"""Sentences that this process encodes before it looks whether the others still run."""


class EncoderPool:
    """The encoder of this process and the same one in further processes, which share the sentences.

    Use it in a ``with`` statement, at whose end the processes stop, in the middle of a call too, which an
    executor of the standard library cannot do before Python 3.14. They stop as well if this process dies.

    Args:
        encoder: The encoder of this process.
        load: Function that a process loads the encoder with, given the name of its device; it is pickled.
        devices: Devices of the further processes, one for each.
        threads: Threads of each process on a CPU, this one included; None: as it is.

    Raises:
        UserError: A process cannot load the encoder.
    """

    def __init__(
        self,
        encoder: Encoder,
        load: Callable[[str], Encoder],
        devices: Sequence[str],
        threads: int | None = None,
    ) -> None:
        self.encoder, self._threads, self._before = encoder, threads, torch.get_num_threads()
        spawn = multiprocessing.get_context("spawn")  # CUDA cannot be used after a fork
        self._others: list[_Process] = []
        for device in devices:
            here, there = spawn.Pipe()
            process = spawn.Process(
                target=_serve, args=(load, device, threads, there, os.getpid()), daemon=True
            )
            process.start()
            there.close()  # else the end of the process would go unnoticed
            self._others.append(_Process(device, process, here))

    def __enter__(self) -> Self:
        """Wait until all processes have loaded the encoder."""
        try:
            for other in self._others:
                other.answer()
        except BaseException:
            self.close()
            raise
        if self._threads is not None:
            torch.set_num_threads(self._threads)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the processes."""
        self.close()

    def close(self) -> None:
        """Stop the processes, at once if they are still encoding."""
        torch.set_num_threads(self._before)
        for other in self._others:
            other.pipe.close()
            other.process.terminate()
        for other in self._others:
            other.process.join()
        self._others = []

    def encode(self, sentences: Sequence[str], /) -> np.ndarray:
        """Embed N sentences in the order given: (N, D) in float32.

        Raises:
            UserError: A process has stopped, or rejects the sentences.
        """
        if not sentences:
            return self.encoder.encode(sentences)
        parts = [part for part in dealt(sentences, len(self._others) + 1) if part]
        busy = self._others[: len(parts) - 1]
        for other, part in zip(busy, parts[1:], strict=True):
            other.ask([sentences[row] for row in part])
        own = self._encode_own([sentences[row] for row in parts[0]], busy)
        return in_order(parts, [own, *(other.answer() for other in busy)])

    def _encode_own(self, sentences: Sequence[str], busy: Sequence[_Process]) -> np.ndarray:
        """Encode the part of this process, unless one of the others stops meanwhile."""
        pieces = []
        for start in range(0, len(sentences), PIECE):
            pieces.append(np.asarray(self.encoder.encode(sentences[start : start + PIECE])))
            for other in busy:
                other.require_running()
        return np.concatenate(pieces)


class _Process:
    """A process of the pool.

    Args:
        device: Its device.
        process: The process.
        pipe: This end of its pipe.
    """

    def __init__(self, device: str, process: Any, pipe: Connection) -> None:
        self.device, self.process, self.pipe = device, process, pipe

    def ask(self, sentences: Sequence[str]) -> None:
        """Send sentences to be encoded."""
        try:
            self.pipe.send(sentences)
        except OSError as error:
            raise self._stopped() from error

    def answer(self) -> Any:
        """Return what the process sends next: vectors, or None once the encoder is loaded."""
        try:
            kind, value = self.pipe.recv()
        except (EOFError, OSError) as error:
            raise self._stopped() from error
        if kind == "rejected":
            raise UserError(f"the process on {self.device}: {value}")
        if kind == "failed":
            raise RuntimeError(f"the process on {self.device} failed:\n{value}")
        return value

    def require_running(self) -> None:
        """Raise the error of a process that has ended."""
        if not self.process.is_alive():
            self.answer()

    def _stopped(self) -> UserError:
        self.process.join(5)
        code = self.process.exitcode
        return UserError(
            f"the process on {self.device} has stopped (exit code {code})"
            + (": killed, as when memory runs out." if code == -KILL else "."),
            key="devices",
        )


def _serve(
    load: Callable[[str], Encoder], device: str, threads: int | None, pipe: Connection, parent: int
) -> None:
    """Load the encoder and encode what is asked for, until the other end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the first process decides
    logging.getLogger("sts_lightning").setLevel(logging.ERROR)  # the first process has said it
    end_with(parent)  # it would finish its sentences first
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        encoder = load(device)
        pipe.send(("ready", None))
        while True:
            pipe.send(("vectors", np.asarray(encoder.encode(pipe.recv()))))
    except (EOFError, BrokenPipeError):
        return
    except UserError as error:
        pipe.send(("rejected", str(error)))
    except Exception:
        pipe.send(("failed", traceback.format_exc()))
