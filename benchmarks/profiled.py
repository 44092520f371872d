"""Memory of training steps: allocations by PyTorch's profiler, and what autograd keeps."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile, record_function


class StepPeaks(Callback):
    """Measures the highest sum of all allocations on the CPU in each training step.

    Everything that is to count has to be allocated within `watching`, the model too.

    Attributes:
        bytes: Peak of each step; filled at the end of `watching`.
    """

    def __init__(self) -> None:
        self.bytes: list[int] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Record allocations."""
        gc.collect()  # garbage from before, freed within, would count as memory less
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
            yield
        recording: Any = recorded.profiler
        events = recording.kineto_results.events()
        changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
        spans = sorted((e.start_ns(), e.end_ns()) for e in events if e.name() == "training step")
        self.bytes = [_peak(changes, start, end) for start, end in spans]

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Mark the beginning of a step."""
        self._span = record_function("training step")
        self._span.__enter__()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Mark its end."""
        self._span.__exit__(None, None, None)


def kept_bytes(module: nn.Module, forward: Callable[[], Tensor]) -> int:
    """Return the bytes of distinct tensors that a forward pass keeps for the backward pass, weights excluded.

    Args:
        module: Module whose parameters are not counted.
        forward: Forward pass.
    """
    weights = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}
    storages: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = forward()  # its graph holds the tensors, so that no two have one address
    del result
    return sum(storages.values())


def _peak(changes: list[tuple[int, int]], start: int, end: int) -> int:
    now = highest = 0
    for moment, change in changes:
        now += change
        if start <= moment <= end:
            highest = max(highest, now)
    return highest
