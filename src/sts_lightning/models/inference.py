"""Embedding of many chunks without gradient: in threads on a CPU, with a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn

from sts_lightning.models.out_of_memory import Chunk, Halving

CPU_CHUNK_TOKENS = 1024
"""Default chunk size on a CPU, in tokens with padding: small chunks stay in a core's cache."""

GPU_CHUNK_TOKENS = 32768
"""Default chunk size on a GPU, in tokens with padding."""

MANY_CHUNKS = 50
"""Number of chunks from which a progress bar is shown."""


def usual_chunk_tokens(device_type: str) -> int:
    """Return the default chunk size on a kind of device."""
    return CPU_CHUNK_TOKENS if device_type == "cpu" else GPU_CHUNK_TOKENS


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode, and each of its parts back into its own mode at the end."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:  # one flag for all would wake the dropout of parts that someone froze
            part.training = training


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
