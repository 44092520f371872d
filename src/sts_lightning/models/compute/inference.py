"""Embedding of many chunks without gradient: in threads on a CPU, in halves where memory runs out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn

from sts_lightning.core.errors import MemoryShortageError

log = logging.getLogger(__name__)

Chunk = dict[str, Tensor]

CPU_CHUNK_TOKENS = 1024
"""Default chunk size on a CPU, in tokens with padding: small chunks stay in a core's cache."""

GPU_CHUNK_TOKENS = 32768
"""Default chunk size on a GPU, in tokens with padding."""

MANY_CHUNKS = 50
"""Number of chunks from which a progress bar is shown."""

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


def usual_chunk_tokens(device_type: str) -> int:
    """Return the default chunk size on a type of device."""
    return CPU_CHUNK_TOKENS if device_type == "cpu" else GPU_CHUNK_TOKENS


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode, and each of its sub-modules back into its mode at the end."""
    modes = [(child, child.training) for child in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for child, training in modes:  # one flag for all would wake the dropout of frozen ones
            child.training = training


def embed_chunks(
    embed: Callable[[Chunk], Tensor], chunks: Sequence[Chunk], threaded: bool, progress: bool | None = None
) -> Tensor:
    """Embed chunks one after the other, or in threads of one core each; in halves where memory runs out.

    A transformer's many small operations gain more from a thread for each chunk than from splitting each of
    them among the threads.

    Args:
        embed: Function from a chunk of n rows to vectors, (n, D).
        chunks: Padded chunks of token ids.
        threaded: Whether to run chunks in parallel on the CPU.
        progress: Whether to show a progress bar; by default in a terminal if there are many chunks.

    Returns:
        Vectors of all rows in the order of the chunks, (N, D).

    Raises:
        MemoryShortageError: Memory does not suffice for one row.
    """
    embed = Halving(embed)
    vectors = _in_threads(embed, chunks) if threaded and len(chunks) > 1 else map(embed, chunks)
    if progress is None:
        progress = len(chunks) >= MANY_CHUNKS and Console().is_terminal
    shown = track(vectors, "Encoding", len(chunks), disable=not progress, transient=True)
    return torch.cat(list(shown))


def _in_threads(embed: Callable[[Chunk], Tensor], chunks: Sequence[Chunk]) -> Iterator[Tensor]:
    threads = torch.get_num_threads()
    inference = torch.inference_mode()(embed)  # the mode belongs to a thread, and new threads start without
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as executor:
            yield from executor.map(inference, chunks)
    finally:
        torch.set_num_threads(threads)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out, on a GPU or on the host."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
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
        halves = (
            {name: values[span] for name, values in chunk.items()}
            for span in (slice(half), slice(half, None))
        )
        return torch.cat([self(rows) for rows in halves])

    def _remember(self, tokens: int) -> None:
        """Keep the smallest number of tokens that did not fit; threads may do so at the same time."""
        torch.cuda.empty_cache()  # does nothing where CUDA has not been used
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
