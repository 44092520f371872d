"""Gradient cache: large batches in the memory of one chunk, with the exact gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def recomputed(device: torch.device, function: Callable[..., Tensor], *inputs: Any) -> Tensor:
    """Run a function, and run it again in the backward pass instead of keeping its activations.

    For each chunk of a batch this is the gradient cache of Gao et al. 2021 (arXiv 2101.06983): the loss sees
    the vectors of all chunks, and the activations of one are in memory at a time. The state of the random
    generators before the first run is stored, and the second draws from it, so both have the same dropout;
    autocast is stored too.

    Args:
        device: Device that the function computes on.
        function: Function of the inputs and of weights that do not change before the backward pass.
        inputs: Tensors, also in mappings, and other values. Non-reentrant checkpoints find those that require
            a gradient wherever they are.
    """
    output: Tensor = checkpoint(
        function, *inputs, use_reentrant=False, context_fn=lambda: (nullcontext(), same_draws(device))
    )
    return output


def same_draws(device: torch.device) -> AbstractContextManager[None]:
    """Return the context in which a device later draws the random numbers that it draws from here on.

    torch's checkpoints do that for the CPU and CUDA alone: they skip a device whose module, like
    ``torch.mps``, has no ``_initialized`` (`pull request <https://github.com/pytorch/pytorch/pull/194478>`_).
    """
    return _replayed(torch.mps.get_rng_state()) if device.type == "mps" else nullcontext()


@contextmanager
def _replayed(state: Tensor) -> Iterator[None]:
    current = torch.mps.get_rng_state()
    torch.mps.set_rng_state(state)
    try:
        yield
    finally:
        torch.mps.set_rng_state(current)
