"""Search for the largest micro batch that fits into memory."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager

import psutil
import torch

from sts_lightning.core.errors import TrainingError
from sts_lightning.models.compute.inference import is_out_of_memory
from sts_lightning.models.encoder import SentenceEncoder

if sys.platform != "win32":
    import resource

log = logging.getLogger(__name__)

REMEDY = (
    "trainer.micro_batch_size=16, or auto, bounds the memory and keeps the gradient of the whole batch; "
    "trainer.gradient_checkpointing=true saves more."
)


@contextmanager
def host_memory_limit(fraction: float = 0.5) -> Iterator[None]:
    """Let allocations fail that exceed a fraction of the memory that is available now.

    Linux grants more memory than there is, and kills processes that use it. Half of it is left for other
    runs that look for their micro batch at the same time. Where the system has no such limit (Windows) or
    does not accept it (macOS), there is none.

    Args:
        fraction: Fraction of the available memory that may be allocated.
    """
    if sys.platform == "win32":
        yield
        return
    unlimited = resource.RLIM_INFINITY
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = psutil.Process().memory_info().vms + int(fraction * psutil.virtual_memory().available)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (min(n for n in (limit, soft, hard) if n != unlimited), hard))
    except (OSError, ValueError):
        yield
        return
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def find_micro_batch_size(
    encoder: SentenceEncoder,
    batch_size: int,
    num_views: int,
    context: Callable[[], AbstractContextManager[None]],
) -> int | None:
    """Find a micro batch whose forward and backward pass fit into memory, by halving the batch.

    Each size is tried on rows of the maximal length, with the memory of gradients and optimiser state
    reserved, so that no later batch needs more. Gradients and random state are left unchanged.

    Args:
        encoder: The encoder to be trained.
        batch_size: Number of examples of a batch that this process embeds.
        num_views: Number of sentences per example.
        context: Factory of the autocast context of training.

    Returns:
        Number of examples in a micro batch; None if the whole batch fits at once.

    Raises:
        TrainingError: Not even one example fits.
    """
    trained = [parameter for parameter in encoder.parameters() if parameter.requires_grad]
    size = batch_size
    on_gpu = encoder.device.type == "cuda"

    def fits() -> bool:
        reserved: list[torch.Tensor] = []
        vectors: torch.Tensor | None = None
        try:
            reserved = [torch.empty_like(parameter) for parameter in trained for _ in range(2)]
            with context():
                vectors = encoder.embed_chunk(encoder.longest_rows(size * num_views))
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

    with torch.random.fork_rng([encoder.device] if on_gpu else []):
        while not (fits() if on_gpu else _with_limited_host_memory(fits)):
            if size == 1:
                raise TrainingError(
                    "memory does not hold one example; lower model.max_length or quantise the model."
                )
            size = (size + 1) // 2
    if size == batch_size:
        log.info("the whole batch of %d examples fits into memory", batch_size)
        return None
    log.info("micro batches of %d examples fit into memory", size)
    return size


def _with_limited_host_memory(call: Callable[[], bool]) -> bool:
    """Call a function in a new thread, which its failures do not outlive.

    oneDNN keeps the error of a kernel that it could not generate for want of memory in a thread-local
    variable, and fails for every later kernel of that thread ("could not create a primitive").
    """

    def limited() -> bool:
        torch.ones(1 << 20).sum()  # starts OpenMP's threads, which end the process where memory is short
        with host_memory_limit():
            return call()

    # Started without the limit: Python would wait for ever for a thread that lacks memory to begin.
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(limited).result()
