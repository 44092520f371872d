"""Bytes of live tensors by kind, and the arithmetic of every operation."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

GRAIN = 512
"""Smallest unit of memory of CUDA's allocator in bytes; a tensor takes a multiple of it."""

Kind = Literal["weights", "adapters", "optimiser", "gradients", "activations", "vectors"]
"""Purpose of a tensor.

``weights``: the model's own weights and buffers, and the head of the loss. ``adapters``: weights of a peft
adapter. ``optimiser``: the moments of AdamW, and temporaries of its step. ``gradients``: of all trained
weights. ``activations``: everything else in the encoder. ``vectors``: token ids, sentence vectors, the loss.
"""

KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class Cost:
    """Arithmetic of an operation.

    Attributes:
        flops: Floating-point operations of a matrix product or of attention; 0 for other operations.
        moved: Bytes read and written.
        dtype: dtype of the result.
    """

    flops: int
    moved: int
    dtype: torch.dtype


@dataclass
class _Live:
    """A storage that is alive: its bytes and kind."""

    size: int
    kind: Kind


# torch's own MemTracker knows neither bitsandbytes' packed weights nor adapters as a kind of their own, and
# cannot exchange the fake vectors of the encoder for real ones, which a loss may branch on. Fake tensors on
# CUDA would keep what its kernels keep, but in a torch built for the CPU those with gradients abort it.
class Meter(TorchDispatchMode):
    """Counts the bytes of live storages by kind, and records the arithmetic of operations.

    Tensors may be real or fake. Those made before the meter was entered are counted by `add`.

    Attributes:
        now: Live bytes by kind.
        peak: The same at the moment when their sum was largest.
        costs: Number of executions by arithmetic.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now: Counter[Kind] = Counter()
        self.peak: Counter[Kind] = Counter()
        self.costs: Counter[Cost] = Counter()
        self._total = 0
        self._kind: Kind = "activations"
        self._live: dict[int, _Live] = {}

    @contextmanager
    def counting_random_states(self) -> Iterator[None]:
        """Count the states of the CPU's random generator that are read, 5 KB each.

        Checkpoints and LoRA's dropout keep them, to draw the same numbers again. Dispatch modes do not see
        them. On a GPU they are 16 bytes, in the host's memory.
        """
        read = torch.get_rng_state

        def counted() -> Tensor:
            state = read()
            self.add(state, self._kind)
            return state

        torch.get_rng_state = counted
        try:
            yield
        finally:
            torch.get_rng_state = read

    @contextmanager
    def kind(self, kind: Kind) -> Iterator[None]:
        """Count new tensors as of a kind."""
        outer, self._kind = self._kind, kind
        try:
            yield
        finally:
            self._kind = outer

    def add(self, tensor: Tensor, kind: Kind) -> None:
        """Count the storage of a tensor; one that is counted already changes its kind."""
        storage = tensor.untyped_storage()
        known = self._live.get(storage._cdata)
        if known is not None:
            self.now[known.kind] -= known.size
            self.now[kind] += known.size
            known.kind = kind
            return
        live = _Live(-(-storage.nbytes() // GRAIN) * GRAIN, kind)
        self._live[storage._cdata] = live
        weakref.finalize(storage, self._free, storage._cdata).atexit = False
        self.now[kind] += live.size
        self._total += live.size
        if self._total > self.peak.total():
            self.peak = self.now.copy()

    def replace(self, old: Tensor, new: Tensor, kind: Kind) -> None:
        """Count a tensor in place of another that is no longer counted."""
        live = self._live.get(old.untyped_storage()._cdata)
        if live is not None:
            self.now[live.kind] -= live.size
            self._total -= live.size
            live.size = 0
        self.add(new, kind)

    def _free(self, key: int) -> None:
        live = self._live.pop(key)
        self.now[live.kind] -= live.size
        self._total -= live.size

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operation, count its results, and record its arithmetic."""
        kwargs = kwargs or {}
        if func.name() == "bitsandbytes::gemm_4bit":
            with self:  # of which the results alone would be seen
                return _gemm_4bit(*args, **kwargs)
        out = func(*args, **kwargs)
        made = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        for tensor in made:
            if tensor.untyped_storage()._cdata not in self._live:
                self.add(tensor, self._kind)
        if not func.is_view and made:
            count = flop_registry.get(func._overloadpacket)
            flops = int(count(*args, **kwargs, out_val=out)) if count is not None else 0
            read = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
            moved = sum(tensor.numel() * tensor.itemsize for tensor in (*read, *made))
            self.costs[Cost(flops, moved, made[0].dtype)] += 1
        return out


def _gemm_4bit(
    rows: Tensor,
    packed: Tensor,
    shape: Sequence[int],
    absmax: Tensor,
    blocksize: int,
    quant_type: str,
    bias: Tensor | None = None,
    absmax_8bit: Tensor | None = None,
    absmax_code: Tensor | None = None,
    absmax_offset: Tensor | None = None,
) -> Tensor:
    """Multiply by quantised weights in the steps that bitsandbytes takes for more than a few rows."""
    ops: Any = torch.ops.bitsandbytes
    if absmax_8bit is not None and absmax_offset is not None:
        absmax = ops.dequantize_blockwise(absmax_8bit, absmax, absmax_code, 256, torch.float32)
        absmax = absmax + absmax_offset
    weight = ops.dequantize_4bit(packed, absmax, blocksize, quant_type, shape, rows.dtype)
    flat = rows.flatten(0, -2)
    product = torch.mm(flat, weight.t()) if bias is None else torch.addmm(bias, flat, weight.t())
    result: Tensor = product.unflatten(0, rows.shape[:-1])
    return result
