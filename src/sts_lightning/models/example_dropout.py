"""Dropout whose masks belong to an example, whatever process, chunk or micro batch it is in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from sts_lightning.errors import TrainingError
from sts_lightning.models.dropout_mode import DropoutMode, active_mode, drawing

WEYL = -0x61C8864680B583EB  # 2^64 divided by the golden ratio, as a signed number
ROUNDS = ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15))
DIGITS = 21
"""Bits of a position along one dimension of a tensor."""

INTEGER_BITS = 24
"""Bits of a random number: those that float32 holds exactly."""

OTHERS = frozenset(
    {
        torch.dropout,
        torch.dropout_,
        torch.native_dropout,
        torch.alpha_dropout,
        torch.feature_dropout,
        torch.bernoulli,
        F.dropout1d,
        F.dropout2d,
        F.dropout3d,
        F.alpha_dropout,
        F.feature_alpha_dropout,
        F.multi_head_attention_forward,
    }
)
"""Functions that draw from the generator of the process, for which there is no other form here."""


def is_active() -> bool:
    """Return whether dropout belongs to examples at present."""
    return isinstance(active_mode(), ExampleDropout)


class ExampleDropout(DropoutMode):
    r"""Replaces the masks of dropout in one forward pass of a chunk.

    An element at the position :math:`(i, j, ...)` of row r is kept by the c-th dropout of the pass if

    .. math:: h(k_r + c\,\gamma, (i, j, ...)) \ge p

    where h is the finaliser of SplitMix64 (`Steele et al. 2014 <https://doi.org/10.1145/2660193.2660195>`_),
    scaled to [0, 1) in steps of 2^-24, and k_r the key of the row. The mask depends neither on the other rows
    nor on the padding. It takes more time and memory than the usual dropout.

    Args:
        keys: Key of each row, (n,) in int64.
        calls: Number of dropouts of the pass that have been before.

    Raises:
        TrainingError: The model drops a tensor whose first dimension is not that of the rows, or by a
            function that has no such form.
    """

    def __init__(self, keys: Tensor, calls: int = 0) -> None:
        super().__init__()
        self.keys = keys
        self.calls = calls

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a function, dropout in its other form."""
        if func in OTHERS:
            raise TrainingError(
                f"trainer.dropout=example: the model draws its dropout by {func.__name__}, which has no such "
                "form; use trainer.dropout=process."
            )
        return super().__torch_function__(func, types, args, kwargs)

    def again(self) -> Self:
        """Return a mode that draws the same masks as this one from here on."""
        return type(self)(self.keys, self.calls)

    def drop(self, x: Tensor, rate: float) -> Tensor:
        """Set elements to 0 by the keys of their rows, and scale the others.

        Raises:
            TrainingError: The first dimension is not that of the rows.
        """
        if len(x) != len(self.keys):
            raise TrainingError(
                f"trainer.dropout=example: the model drops a tensor of shape {tuple(x.shape)} where rows are "
                f"expected along the first dimension ({len(self.keys)}); use trainer.dropout=process."
            )
        kept = self._uniform(x) >= rate
        self.calls += 1
        return x * kept.to(x.dtype) / (1 - rate) if rate < 1 else x * 0.0

    def _uniform(self, x: Tensor) -> Tensor:
        """Return a number in [0, 1) for each element of a tensor."""
        keys = self.keys.to(x.device) + torch.tensor(self.calls) * WEYL
        uniform: Tensor = random_integers(mix(keys), x.shape[1:]) / 2**INTEGER_BITS
        return uniform


def random_integers(keys: Tensor, shape: Sequence[int]) -> Tensor:
    """Return an integer of `INTEGER_BITS` bits for each position of a row, (n, *shape) in int64.

    It depends on the key and the position alone, and not on the other rows or on the shape.

    Args:
        keys: Key of each row, scrambled (`mix`), (n,) in int64.
        shape: Shape of a row, at most three dimensions of at most 2^21.
    """
    code = torch.zeros((), dtype=torch.int64, device=keys.device)
    for size in shape:
        code = (code[..., None] << DIGITS) + torch.arange(size, device=keys.device)
    mixed = mix(keys.reshape(-1, *(1 for _ in shape)) + code)
    return mixed >> 64 - INTEGER_BITS & (1 << INTEGER_BITS) - 1


def mix(x: Tensor) -> Tensor:
    """Scramble 64-bit integers, each of which keeps a value of its own (SplitMix64's finaliser)."""
    x = x + WEYL
    for bits, factor in ROUNDS:
        x = (x ^ _shifted(x, bits)) * factor
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, bits: int) -> Tensor:
    """Shift to the right as unsigned numbers."""
    return x >> bits & (1 << 64 - bits) - 1


def row_keys(seed: int, epoch: int, batch: int, num_views: int, examples: range) -> Tensor:
    """Return the keys of the rows of a batch, view-major, (V * b,) in int64.

    Args:
        seed: Random seed of the run.
        epoch: Number of the epoch.
        batch: Number of the batch in the epoch.
        num_views: Number of views V of an example.
        examples: Positions of the examples in the batch of all processes, b of them.
    """
    keys = mix(torch.tensor(seed))
    for part in (epoch, batch):
        keys = mix(keys + part)
    views = torch.arange(num_views)[:, None]
    return (mix(mix(keys + torch.arange(examples.start, examples.stop)) + views)).flatten()


def check_example_dropout(embed: Callable[[dict[str, Tensor]], Tensor], chunk: dict[str, Tensor]) -> None:
    """Embed a chunk in training mode, and check that each dropout belongs to a row.

    Args:
        embed: Function from a chunk of n rows to vectors, (n, D).
        chunk: Chunk with fewer rows than tokens in each of them.

    Raises:
        TrainingError: The model drops something else, or draws from the generator of the process.
    """
    ids = chunk["input_ids"]
    before = _random_state(ids.device)
    with torch.no_grad(), drawing(ExampleDropout(torch.arange(len(ids)))):
        embed(chunk)
    if not torch.equal(before, _random_state(ids.device)):
        raise TrainingError(
            "trainer.dropout=example: the model draws random numbers by a kernel of its own, which has no "
            "such form; use trainer.dropout=process."
        )


def _random_state(device: torch.device) -> Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()
