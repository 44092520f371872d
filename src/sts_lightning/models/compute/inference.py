"""Embedding of many chunks without gradient: in threads on a CPU, in halves where memory runs out."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from sts_lightning.core.errors import MemoryShortageError

log = logging.getLogger(__name__)

Chunk = dict[str, Tensor]

CPU_CHUNK_TOKENS = 1024
"""Default chunk size on a CPU, in tokens with padding: small chunks stay in a core's cache."""

GPU_CHUNK_TOKENS = 32768
"""Default chunk size on a GPU, in tokens with padding."""

SLICE = 8192
"""Number of texts that are tokenised at once: more would wait for no gain, and fill the memory."""

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
    embed: Callable[[Chunk], Tensor], chunks: Sequence[Chunk], threaded: bool
) -> Iterator[Tensor]:
    """Yield the vectors of each chunk in order, computed one after the other, or in threads of one core each.

    A transformer's many small operations gain more from a thread for each chunk than from splitting each of
    them among the threads.

    Args:
        embed: Function from a chunk of n rows to vectors, (n, D).
        chunks: Padded chunks of token ids.
        threaded: Whether to run chunks in parallel on the CPU.
    """
    if not threaded or len(chunks) < 2:
        yield from map(embed, chunks)
        return
    threads = torch.get_num_threads()
    inference = torch.inference_mode()(embed)  # the mode belongs to a thread, and new threads start without
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as executor:
            yield from executor.map(inference, chunks)
    finally:
        torch.set_num_threads(threads)


def to_device(values: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor of the host to a device; the host does not wait for what a GPU is computing."""
    if device.type != "cuda":
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)


def to_host(parts: Iterable[tuple[Tensor, Tensor]]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield rows and their vectors in order, with the vectors on the host.

    Those of a GPU come once they have arrived; meanwhile it gets its next work.
    """
    late: deque[tuple[Tensor, Tensor, torch.cuda.Event]] = deque()
    for rows, vectors in parts:
        if vectors.device.type != "cuda":
            yield rows, vectors.cpu()
            continue
        arrived = vectors.to("cpu", non_blocking=True)  # into pinned memory
        event = torch.cuda.Event()
        # Not on the current device's stream, which may be another card's.
        event.record(torch.cuda.current_stream(vectors.device))
        late.append((rows, arrived, event))
        while late and late[0][2].query():
            yield late.popleft()[:2]
    for rows, arrived, event in late:
        event.synchronize()
        yield rows, arrived


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
