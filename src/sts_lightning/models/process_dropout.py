"""Dropout whose masks come from the generator of the process, drawn fast on a CPU."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Self

import torch
from torch import Tensor

from sts_lightning.models.dropout_mode import DropoutMode, active_mode, drawing
from sts_lightning.models.example_dropout import ExampleDropout

LEVELS = 1 << 16
"""Values of a random number, 16 bits: four of them are drawn at once."""


class ProcessDropout(DropoutMode):
    """Draws the masks of a CPU from 16 bits for each element, several times as fast as torch.

    The rate is rounded to a multiple of 2^-16, and what is kept is scaled by the rounded rate, so that the
    expected value of an element is exactly its own.
    """

    def again(self) -> Self:
        """Return a new mode; what it draws follows from the state of the generator."""
        return type(self)()

    def drop(self, x: Tensor, rate: float) -> Tensor:
        """Set elements to 0 with a probability, and scale the others."""
        return x * process_mask(x, rate)


def process_mask(x: Tensor, rate: float) -> Tensor:
    """Draw the factors of a tensor's elements: 0, or 1 / (1 - rate); of its shape and dtype.

    Args:
        x: Tensor on the CPU.
        rate: Probability of 0, in [0, 1].
    """
    dropped = round(rate * LEVELS)
    if dropped == LEVELS:
        return torch.zeros(x.shape, dtype=x.dtype)
    words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    draws = words.view(torch.int16)[: x.numel()].view(x.shape)
    # Compared into a tensor of x's dtype: one of bool, and its product, take twice as long.
    kept = torch.ge(draws, dropped - LEVELS // 2, out=torch.empty(x.shape, dtype=x.dtype))
    return kept.mul_(LEVELS / (LEVELS - dropped))


def draws_fast() -> bool:
    """Return whether `ProcessDropout` draws at present."""
    return isinstance(active_mode(), ProcessDropout)


def dropout_of(keys: Tensor | None, device: torch.device) -> AbstractContextManager[None]:
    """Return the context of a forward pass of a chunk, in which its dropout is drawn.

    Args:
        keys: Key of each row, whose own the masks then are (`ExampleDropout`), (n,), or None.
        device: Device of the pass. Without keys torch draws the masks of a GPU.
    """
    if keys is not None:
        return drawing(ExampleDropout(keys))
    return drawing(ProcessDropout() if device.type == "cpu" else None)
