"""Attention in half precision on a CPU, where torch's fused kernel is slow for short rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

from sts_lightning.models.compute.gradient_cache import same_draws

if TYPE_CHECKING:
    from peft import PeftModel

HALF = (torch.bfloat16, torch.float16)

VECTOR = 16
"""Multiple of keys at which the kernel does not handle the last ones one by one."""

WIDEST_HEAD = 64
"""Largest head for which that costs more than copying keys and values."""

LONGEST_IN_FLOAT32 = 128
"""Number of keys up to which the backward pass of the kernel is slower in half precision than in float32."""


def half_attention(backbone: PreTrainedModel | PeftModel) -> AbstractContextManager[Any]:
    """Return the context of a forward pass, in which attention in half precision on a CPU takes another form.

    Without gradient that is `attend_padded`, with one `attend_in_float32`. In float32 less is gained than the
    Python call for each of torch's functions costs.
    """
    if backbone.device.type != "cpu":
        return nullcontext()
    if not torch.is_grad_enabled():
        return AttentionMode(attend_padded) if backbone.dtype in HALF else nullcontext()
    half = backbone.dtype in HALF or torch.is_autocast_enabled("cpu")
    return AttentionMode(attend_in_float32) if half else nullcontext()


def recomputed_layer(
    backbone: PreTrainedModel | PeftModel,
) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Return the contexts of a layer within a forward pass and, computed again, outside of it."""
    on_cpu = backbone.device.type == "cpu"
    return nullcontext(), half_attention(backbone) if on_cpu else same_draws(backbone.device)


class AttentionMode(TorchFunctionMode):
    """Replaces ``F.scaled_dot_product_attention``.

    Args:
        attend: Function of torch's function and its arguments.
    """

    def __init__(self, attend: Callable[..., Tensor]) -> None:
        super().__init__()
        self.attend = attend

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a function."""
        if func is F.scaled_dot_product_attention:
            return self.attend(func, *args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def attend_padded(
    fused: Callable[..., Tensor],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **options: Any,
) -> Tensor:
    """Attend with keys and values padded, by masked ones, to a multiple of `VECTOR`.

    On a CPU with AMX, rows of 13 tokens and heads of 32 take 0.4 times as long in bfloat16. The result
    differs by rounding.

    Args:
        fused: ``F.scaled_dot_product_attention``, whose other arguments follow.
        query: (n, H, L, E).
        key: (n, H, S, E).
        value: (n, H, S, E).
        attn_mask: Boolean or additive, broadcast to (n, H, L, S).
        dropout_p: Rate of dropout.
        is_causal: Whether the mask is causal; then nothing is padded, for the kernel needs no mask.
        options: ``scale`` and ``enable_gqa``.

    Returns:
        (n, H, L, E).
    """
    length = key.shape[-2]
    missing = -length % VECTOR
    if missing == 0 or is_causal or dropout_p > 0 or query.dim() != 4 or key.shape[-1] > WIDEST_HEAD:
        return fused(query, key, value, attn_mask, dropout_p, is_causal, **options)
    mask = torch.ones(1, 1, 1, length, dtype=torch.bool) if attn_mask is None else attn_mask
    hidden = False if mask.dtype == torch.bool else float("-inf")
    mask = F.pad(mask.expand(*mask.shape[:-2], query.shape[-2], length), (0, missing), value=hidden)
    key, value = (F.pad(rows, (0, 0, 0, missing)) for rows in (key, value))
    return fused(query, key, value, mask, 0.0, **options)


def attend_in_float32(
    fused: Callable[..., Tensor],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **options: Any,
) -> Tensor:
    """Attend, without dropout in float32 where half precision has a slow backward pass.

    On a CPU with AMX its kernel takes 2 to 10 times as long as that of float32, for heads of 128 and 32. On
    an AMD EPYC without AMX a step of MiniLM without dropout takes 1.4 times as long with it.

    Args:
        fused: ``F.scaled_dot_product_attention``, whose other arguments follow.
        query: (n, H, L, E).
        key: (n, H, S, E).
        value: (n, H, S, E).
        attn_mask: Boolean or additive, broadcast to (n, H, L, S), or None.
        dropout_p: Rate of dropout; with it torch computes attention in steps.
        is_causal: Whether the mask is causal.
        options: ``scale`` and ``enable_gqa``.

    Returns:
        (n, H, L, E), of the dtype of the query.
    """
    if query.dtype not in HALF or dropout_p > 0 or key.shape[-2] > LONGEST_IN_FLOAT32:
        return fused(query, key, value, attn_mask, dropout_p, is_causal, **options)
    if attn_mask is not None and attn_mask.is_floating_point():
        attn_mask = attn_mask.float()
    with torch.autocast("cpu", enabled=False):
        attended = fused(query.float(), key.float(), value.float(), attn_mask, 0.0, is_causal, **options)
    return attended.to(query.dtype)
