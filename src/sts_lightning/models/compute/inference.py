"""Embedding of many chunks without gradient: in threads on a CPU."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
from torch import Tensor, nn

Chunk = dict[str, Tensor]

SLICE = 8192
"""Number of texts that are tokenised at once: more would wait for no gain, and fill the memory."""


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
