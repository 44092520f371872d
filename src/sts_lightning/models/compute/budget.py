"""How many padded tokens are embedded at a time: the limit of training, dev evaluation and `encode`."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
from torch import Tensor

from sts_lightning.core.errors import MemoryShortageError

log = logging.getLogger(__name__)

SIGNS = (
    "can't allocate memory",
    "not enough memory",  # the same of the CPU's allocator on Windows
    "could not create a primitive",  # oneDNN
    "std::bad_alloc",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "MPS backend out of memory",
    "NVML_SUCCESS == r",  # on a slice of a GPU, whose memory torch may not ask NVML for, to report it
)
"""Texts of errors of libraries outside torch's allocator of the GPU."""


class TokenBudget:
    """Largest number of padded tokens that are embedded at a time; it shrinks where memory runs out.

    Args:
        tokens: The number; None for any.
    """

    def __init__(self, tokens: int | None = None) -> None:
        self.tokens = tokens

    def fits(self, tokens: int) -> bool:
        """Return whether so many padded tokens may be embedded at a time."""
        return self.tokens is None or tokens <= self.tokens

    def smaller(self, rows: int, length: int) -> int:
        """Return the budget after a chunk of padded rows did not fit: three quarters of them; 0 for one row.

        A smaller step would repeat more work until a chunk fits, a larger one leaves more memory unused.
        """
        return 0 if rows == 1 else min(rows - 1, round(0.75 * rows)) * length

    def shrink(self, tokens: int) -> None:
        """Lower the budget; it never grows, whatever other threads have set."""
        self.tokens = tokens if self.tokens is None else min(tokens, self.tokens)

    def embed(self, embed: Callable[[dict[str, Tensor]], Tensor], chunk: dict[str, Tensor]) -> Tensor:
        """Embed a chunk of n rows without gradient, (n, D), in pieces that fit.

        The rows keep their padding, so their vectors are those of the whole chunk up to rounding.

        Args:
            embed: Function from a chunk of n rows to vectors, (n, D).
            chunk: Padded rows.

        Raises:
            MemoryShortageError: Memory does not suffice for one row.
        """
        rows, length = chunk["input_ids"].shape
        if rows == 1 or self.fits(rows * length):
            try:
                return embed(chunk)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if rows == 1:
                    raise _too_long(length) from error
            torch.cuda.empty_cache()  # does nothing where CUDA has not been used
            if self.tokens is None:
                log.info("memory does not hold %s tokens at once: smaller chunks", f"{rows * length:,}")
            self.shrink(self.smaller(rows, length))
        most = max(1, (self.tokens or 0) // length)
        starts = range(0, rows, most)
        pieces = [{name: values[start : start + most] for name, values in chunk.items()} for start in starts]
        return torch.cat([self.embed(embed, piece) for piece in pieces])


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out, on a GPU or on the host."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)
    )


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
