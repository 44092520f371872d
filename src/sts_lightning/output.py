"""Standard output whose reader may end first, such as that of ``python train.py | head``."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from typing import TextIO

GONE = (errno.EPIPE, errno.EIO)
"""errno values of a write to a pipe without a reader, and to a terminal that was closed."""


class Output(io.TextIOWrapper):
    """Text stream that drops what is written after its reader has ended."""

    def write(self, text: str, /) -> int:
        """Write a text, and return its length."""
        try:
            return super().write(text)
        except OSError as error:
            self._discard(error)
            return len(text)

    def flush(self) -> None:
        """Pass on what is in the buffers."""
        try:
            super().flush()
        except OSError as error:
            self._discard(error)
            super().flush()  # what the buffers still hold

    def _discard(self, error: OSError) -> None:
        """Direct the stream's file to nowhere, for libraries that write to it by themselves, too."""
        if error.errno not in GONE:
            raise error
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


@contextlib.contextmanager
def lasting_output() -> Iterator[None]:
    """Keep a command running when the reader of its output ends first: a run logs to its folder as well."""
    before = (sys.stdout, sys.stderr)
    sys.stdout, sys.stderr = (_lasting(stream) for stream in before)
    now = (sys.stdout, sys.stderr)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for stream in now:
            if isinstance(stream, Output):
                stream.detach()  # flushes; otherwise the file would be closed with the stream


def _lasting(stream: TextIO) -> TextIO:
    if type(stream) is not io.TextIOWrapper:  # replaced by a caller, such as pytest or a notebook
        return stream
    stream.flush()
    return Output(
        stream.buffer,
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
