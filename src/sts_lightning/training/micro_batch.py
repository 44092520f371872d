"""What fits into memory."""

from __future__ import annotations

import logging
import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import torch

from sts_lightning.errors import TrainingError
from sts_lightning.models.encoder import SentenceEncoder

log = logging.getLogger(__name__)

REMEDY = (
    "trainer.micro_batch_size=16, or any smaller divisor of data.batch_size, or auto, bounds the memory and "
    "leaves the gradient that of the whole batch; trainer.gradient_checkpointing=true saves more."
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, on a GPU or on the host."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


@contextmanager
def host_memory_limit(share: float = 0.5) -> Iterator[None]:
    """Let allocations fail that go beyond a share of the memory that is available now.

    Linux grants more memory than there is, and kills processes when it is used. Half of it is left for
    other runs that look for their micro batch at the same time. No limit on systems other than Linux.
    """
    try:
        available = Path("/proc/meminfo").read_text("ascii").partition("MemAvailable:")[2].split()[0]
        used = Path("/proc/self/statm").read_text("ascii").split()[0]
    except (OSError, IndexError):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = int(used) * resource.getpagesize() + int(share * int(available) * 1024)
    bounds = [value for value in (limit, soft, hard) if value != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(bounds), hard))
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
    """The largest micro batch, a halving of the batch, whose forward and backward pass fit into memory.

    Each is tried on rows as long as rows can get, while gradients and what the optimiser will keep have
    their place, so that no later batch needs more. Gradients and random state are as before afterwards.

    Args:
        encoder: What trains.
        batch_size: Examples that this process embeds of a batch.
        num_views: Sentences of an example.
        context: Autocast, as in training.

    Returns:
        None if the whole batch fits at once.

    Raises:
        TrainingError: Not even one example does.
    """
    trained = [parameter for parameter in encoder.parameters() if parameter.requires_grad]
    size = batch_size
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    on_gpu = next(encoder.parameters()).is_cuda
    with torch.random.fork_rng(devices), nullcontext() if on_gpu else host_memory_limit():
        while True:
            reserved: list[torch.Tensor] = []
            vectors: torch.Tensor | None = None
            try:
                reserved = [torch.empty_like(parameter) for parameter in trained for _ in range(2)]
                with context():
                    vectors = encoder.embed_chunk(encoder.longest_rows(size * num_views))
                vectors.sum().backward()
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
            else:
                break
            finally:
                del reserved
                vectors = None
                for parameter in trained:
                    parameter.grad = None
                if torch.cuda.is_available():
                    torch.cuda.empty_cache()
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
