"""Search for the largest micro batch that fits into memory."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import psutil
import torch

from sts_lightning.core.errors import TrainingError
from sts_lightning.models.compute.inference import is_out_of_memory
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.training.callbacks.progress import random_states, restore_random_states

if sys.platform != "win32":
    import resource

log = logging.getLogger(__name__)

REMEDY = (
    "trainer.micro_batch_size=16 or a smaller number bounds the memory and keeps the gradient of the whole "
    "batch; trainer.gradient_checkpointing=true saves more."
)

STEP = 0.1
"""Fraction by which the search may end too low, and by which micro batches shrink when memory runs out."""


def most_host_memory(fraction: float = 0.5) -> int:
    """Return the bytes of address space that this process has with a fraction of what is available now.

    Half is left for other runs that look for their micro batch at the same time.
    """
    return int(psutil.Process().memory_info().vms + fraction * psutil.virtual_memory().available)


@contextmanager
def host_memory_limit(limit: int) -> Iterator[None]:
    """Let allocations fail that exceed so many bytes of address space.

    Linux grants more memory than there is, and kills processes that use it. Where the system has no such
    limit (Windows) or does not accept it (macOS), there is none.
    """
    if sys.platform == "win32":
        yield
        return
    unlimited = resource.RLIM_INFINITY
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (min(n for n in (limit, soft, hard) if n != unlimited), hard))
    except (OSError, ValueError):
        yield
        return
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def find_micro_batch(
    encoder: SentenceEncoder,
    batch_size: int,
    num_rows: int,
    context: Callable[[], AbstractContextManager[None]],
) -> int | None:
    """Find a micro batch whose forward and backward pass fit into memory.

    The batch is halved until it fits, and what lies between is halved down to a tenth. Each size is tried on
    rows of the maximal length, with the memory of gradients and optimiser state reserved. Shorter rows of as
    many padded tokens need no more. Gradients and random state are left unchanged.

    Args:
        encoder: The encoder to be trained.
        batch_size: Number of examples of a batch that this process embeds.
        num_rows: Number of rows per example.
        context: Factory of the autocast context of training.

    Returns:
        Number of padded tokens of a micro batch; None if the whole batch fits at once.

    Raises:
        TrainingError: Not even one example fits.
    """
    trained = [parameter for parameter in encoder.parameters() if parameter.requires_grad]
    on_gpu = encoder.device.type == "cuda"
    # Once: the allocator keeps part of what a trial frees, by which the next limit would be higher.
    limit = 0 if on_gpu else most_host_memory()

    def fits(size: int) -> bool:
        reserved: list[torch.Tensor] = []
        vectors: torch.Tensor | None = None
        try:
            reserved = [torch.empty_like(parameter) for parameter in trained for _ in range(2)]
            with context():
                vectors = encoder.embed_chunk(encoder.longest_rows(size * num_rows))
            if vectors.requires_grad:  # not with a frozen encoder
                vectors.sum().backward()
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return False
        finally:
            del reserved
            vectors = None
            for parameter in trained:
                parameter.grad = None
            if on_gpu:
                torch.cuda.empty_cache()
        return True

    def tried(size: int) -> bool:
        return fits(size) if on_gpu else _with_limited_host_memory(partial(fits, size), limit)

    size, too_large = batch_size, batch_size + 1
    states = random_states(encoder.device)
    while not tried(size):
        if size == 1:
            raise TrainingError(
                "memory does not hold one example; lower model.max_length or quantise the model."
            )
        size, too_large = (size + 1) // 2, size
    while too_large - size > max(1.0, STEP * size):
        middle = (size + too_large) // 2
        size, too_large = (middle, too_large) if tried(middle) else (size, middle)
    restore_random_states(states, encoder.device)
    if size == batch_size:
        log.info("the whole batch of %d examples fits into memory", batch_size)
        return None
    tokens = encoder.longest_rows(size * num_rows)["input_ids"].numel()
    log.info(
        "micro batches of %d padded tokens fit into memory (%d examples of the longest rows)", tokens, size
    )
    return tokens


def _with_limited_host_memory(call: Callable[[], bool], limit: int) -> bool:
    """Call a function in a new thread, which its failures do not outlive.

    oneDNN keeps the error of a kernel that it could not generate for want of memory in a thread-local
    variable, and fails for every later kernel of that thread ("could not create a primitive").
    """

    def limited() -> bool:
        torch.ones(1 << 20).sum()  # starts OpenMP's threads, which end the process where memory is short
        with host_memory_limit(limit):
            return call()

    # Started without the limit: Python would wait for ever for a thread that lacks memory to begin.
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(limited).result()
