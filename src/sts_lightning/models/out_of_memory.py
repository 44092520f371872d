"""Memory that runs out: how it is told from other errors, and encoding that continues with smaller chunks."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
from torch import Tensor

from sts_lightning.errors import MemoryShortageError

log = logging.getLogger(__name__)

Chunk = dict[str, Tensor]

SIGNS = (
    "can't allocate memory",
    "not enough memory",  # the same of the CPU's allocator on Windows
    "could not create a primitive",  # oneDNN
    "std::bad_alloc",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "MPS backend out of memory",
)
"""Texts of errors of libraries outside torch's allocator of the GPU."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out, on a GPU or on the host."""
    kinds = (torch.OutOfMemoryError, MemoryError)
    return isinstance(error, kinds) or (
        isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)
    )


class Halving:
    """Embedding of chunks that are too large for the memory in halves of their rows.

    The rows keep their padding, so their vectors are those of the whole chunk up to rounding. What did not
    fit is remembered: later chunks of so many tokens are halved before they are tried.

    Args:
        embed: Function from a chunk of n rows to vectors, (n, D), without gradient.
    """

    def __init__(self, embed: Callable[[Chunk], Tensor]) -> None:
        self.embed = embed
        self.too_many: int | None = None

    def __call__(self, chunk: Chunk) -> Tensor:
        """Embed a chunk of n rows, (n, D).

        Raises:
            MemoryShortageError: Memory does not suffice for one row.
        """
        rows, length = chunk["input_ids"].shape
        tokens = rows * length
        if rows == 1 or self.too_many is None or tokens < self.too_many:
            try:
                return self.embed(chunk)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if rows == 1:
                    raise _too_long(length) from error
            self._remember(tokens)
        half = (rows + 1) // 2
        parts = (
            {name: values[span] for name, values in chunk.items()}
            for span in (slice(half), slice(half, None))
        )
        return torch.cat([self(part) for part in parts])

    def _remember(self, tokens: int) -> None:
        """Keep the smallest number of tokens that did not fit; threads may do so at the same time."""
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if self.too_many is None:
            log.info("memory does not hold %s tokens at once: encoding in smaller chunks", f"{tokens:,}")
        self.too_many = tokens if self.too_many is None else min(tokens, self.too_many)


def _too_long(length: int) -> MemoryShortageError:
    return MemoryShortageError(
        f"memory ran out while encoding one sentence of {length:,} tokens.",
        hint="A lower max_length of evaluation (max_length of eval, evaluation.max_length of a run), "
        "precision=bf16-true or quantization=4bit needs less, and accelerator=cpu takes the host's memory.",
    )


def shortage(error: BaseException) -> MemoryShortageError:
    """Return the error of memory that ran out, for a user, from that of a library."""
    reason = str(error).strip().partition("\n")[0].partition(". ")[0] or type(error).__name__
    return MemoryShortageError(
        f"memory ran out ({reason}).",
        hint="A smaller model, precision=bf16-true or quantization=4bit needs less, and accelerator=cpu "
        "takes the host's memory.",
    )
