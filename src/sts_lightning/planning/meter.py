"""Bytes of stored tensors by purpose, and the arithmetic of every operation."""

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

Purpose = Literal["weights", "adapters", "optimiser", "gradients", "activations", "vectors"]
"""Purpose of a tensor.

``weights``: the model's own weights and buffers, and the head of the loss. ``adapters``: weights of a peft
adapter. ``optimiser``: the moments of AdamW, and temporaries of its step. ``gradients``: of all trained
weights. ``activations``: everything else in the encoder. ``vectors``: token ids, sentence vectors, the loss.
"""

FLOPS: dict[Any, Any] = {**flop_registry, torch.ops.aten.addmm_: flop_registry[torch.ops.aten.addmm]}
"""Functions that count floating-point operations; torch's register has no product in place."""

PURPOSES: tuple[Purpose, ...] = get_args(Purpose)


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
class _Storage:
    """A storage that is alive: its bytes and purpose."""

    size: int
    purpose: Purpose


# torch's own MemTracker knows neither bitsandbytes' packed weights nor adapters as a purpose, and
# cannot exchange the fake vectors of the encoder for real ones, which a loss may branch on. Fake tensors on
# CUDA would keep what its kernels keep, but in a torch built for the CPU those with gradients abort it.
class Meter(TorchDispatchMode):
    """Counts the bytes of live storages by purpose, and records the arithmetic of operations.

    Tensors may be real or fake. Those made before the meter was entered are counted by `add`.

    Attributes:
        now: Live bytes by purpose.
        peak: The same at the moment when their sum was largest.
        costs: Number of executions by arithmetic.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now: Counter[Purpose] = Counter()
        self.peak: Counter[Purpose] = Counter()
        self.costs: Counter[Cost] = Counter()
        self._purpose: Purpose = "activations"
        self._storages: dict[int, _Storage] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # two more calls for each operation, in case one were compiled

    @contextmanager
    def purpose(self, purpose: Purpose) -> Iterator[None]:
        """Count new tensors as of a purpose."""
        outer, self._purpose = self._purpose, purpose
        try:
            yield
        finally:
            self._purpose = outer

    def add(self, tensor: Tensor, purpose: Purpose) -> None:
        """Count the storage of a tensor; one that is counted already changes its purpose."""
        storage = tensor.untyped_storage()
        known = self._storages.get(storage._cdata)
        if known is not None:
            self.now[known.purpose] -= known.size
            self.now[purpose] += known.size
            known.purpose = purpose
            return
        stored = _Storage(-(-storage.nbytes() // GRAIN) * GRAIN, purpose)
        self._storages[storage._cdata] = stored
        weakref.finalize(storage, self._free, storage._cdata).atexit = False
        self.now[purpose] += stored.size
        if self.now.total() > self.peak.total():
            self.peak = self.now.copy()

    def raise_peak(self, above: Counter[Purpose]) -> None:
        """Count bytes above those that are alive now, for a moment."""
        high = self.now.copy()
        high.update(above)
        self.peak = max(self.peak, high, key=Counter.total)

    def forget(self, tensor: Tensor) -> None:
        """No longer count a tensor."""
        stored = self._storages.get(tensor.untyped_storage()._cdata)
        if stored is not None:
            self.now[stored.purpose] -= stored.size
            stored.size = 0

    def replace(self, old: Tensor, new: Tensor, purpose: Purpose) -> None:
        """Count a tensor in place of another."""
        self.forget(old)
        self.add(new, purpose)

    def _free(self, key: int) -> None:
        stored = self._storages.pop(key)
        self.now[stored.purpose] -= stored.size

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operation, count its results, and record its arithmetic."""
        kwargs = kwargs or {}
        if func is torch.ops.prim.device.default:  # asked several times for each operation
            return args[0].fake_device
        if func is torch.ops.aten._unsafe_view.default:  # a view like others, but not marked as one
            return func(*args)
        if func.name() == "bitsandbytes::gemm_4bit":
            with self:  # of which the results alone would be seen
                return _gemm_4bit(*args, **kwargs)
        out = func(*args, **kwargs)
        made = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        for tensor in made:
            if tensor.untyped_storage()._cdata not in self._storages:
                self.add(tensor, self._purpose)
        if not func.is_view and made:
            count = FLOPS.get(func._overloadpacket)
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
