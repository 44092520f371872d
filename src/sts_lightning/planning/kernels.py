"""Kernels of a GPU in a trace on fake CPU tensors: what they keep for the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import masking_utils


@contextmanager
def gpu_kernels() -> Iterator[None]:
    """Replace functions whose CPU kernels keep other tensors than those of CUDA.

    Dropout keeps a mask of one byte per element instead of one in the dtype of its input. Attention with
    dropout runs in a fused kernel, which keeps no probabilities. Norms and softmax are in float32 under
    autocast.
    """
    ours = {
        "dropout": _dropout,
        "scaled_dot_product_attention": _fused(F.scaled_dot_product_attention),
        "layer_norm": _in_float32(F.layer_norm),
        "softmax": _in_float32(F.softmax),
    }
    with replaced(F, ours):  # where modules look functions up, in the backward pass of a checkpoint too
        yield


@contextmanager
def masks_of_real_rows() -> Iterator[None]:
    """Let causal models skip the mask, as they do for real rows.

    The library first checks the positions for several texts in one row, and cannot read fake positions.
    """
    with replaced(masking_utils, {"find_packed_sequence_indices": lambda position_ids: None}):
        yield


@contextmanager
def replaced(module: Any, functions: dict[str, Callable[..., Any]]) -> Iterator[None]:
    """Replace functions of a module by others, by name."""
    own = {name: getattr(module, name) for name in functions}
    for name, function in functions.items():
        setattr(module, name, function)
    try:
        yield
    finally:
        for name, function in own.items():
            setattr(module, name, function)


def _dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    dropped: Tensor = torch.native_dropout(input, p, True)[0] if training and p > 0 else input
    return dropped


def _fused(attention: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return attention without dropout, whose kernel on a CPU is fused too."""

    def fused(
        query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, *rest: Any, **more: Any
    ) -> Tensor:
        if rest:
            raise NotImplementedError("attention with dropout_p as a positional argument is not traced.")
        return attention(query, key, value, attn_mask, **(more | {"dropout_p": 0.0}))

    return fused


def _in_float32(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def converted(*args: Any, **kwargs: Any) -> Tensor:
        if not torch.is_autocast_enabled("cpu"):
            return function(*args, **kwargs)
        with torch.autocast("cpu", enabled=False):
            values = {key: _float32(value) for key, value in kwargs.items()}
            return function(*map(_float32, args), **values)

    return converted


def _float32(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.is_floating_point() else value
