"""Gradient cache: large batches in the memory of one chunk, with the exact gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils.checkpoint import checkpoint


def recomputed(function: Callable[..., Tensor], *inputs: Any) -> Tensor:
    """Run a function, and run it again in the backward pass instead of keeping its activations.

    For each chunk of a batch this is the gradient cache of Gao et al. 2021 (arXiv 2101.06983): the loss sees
    the vectors of all chunks, and the activations of one are in memory at a time. torch stores the state of
    the random generators before the first run and draws from it in the second, so both have the same dropout;
    autocast is stored too.

    Args:
        function: Function of the inputs and of weights that do not change before the backward pass.
        inputs: Tensors, also in mappings, and other values. Non-reentrant checkpoints find those that require
            a gradient wherever they are.
    """
    output: Tensor = checkpoint(function, *inputs, use_reentrant=False)
    return output
