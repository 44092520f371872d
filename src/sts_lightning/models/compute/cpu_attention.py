"""Attention in half precision on a CPU, whose fused kernel has a slow backward pass for short rows."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

if TYPE_CHECKING:
    from peft import PeftModel

HALF = (torch.bfloat16, torch.float16)

LONGEST_IN_FLOAT32 = 128
"""Number of keys up to which the backward pass of the kernel is slower in half precision than in float32."""


def half_attention(backbone: PreTrainedModel | PeftModel) -> AbstractContextManager[Any]:
    """Return the context of a forward pass, in which attention in half precision on a CPU has another form.

    In float32 less would be gained than the Python call for each of torch's functions costs.
    """
    half = backbone.dtype in HALF or torch.is_autocast_enabled("cpu")
    if backbone.device.type == "cpu" and half and torch.is_grad_enabled():
        return AttentionInFloat32()
    return nullcontext()


class AttentionInFloat32(TorchFunctionMode):
    """Computes ``F.scaled_dot_product_attention`` without dropout in float32, for a faster backward pass.

    On a CPU with AMX the kernel of half precision takes 2 to 10 times as long as that of float32, for heads
    of 128 and 32. On an AMD EPYC with AVX512_BF16 a step of MiniLM without dropout takes 1.36 times as long
    with it. With dropout torch computes attention in steps, which gain nothing.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a function."""
        if func is F.scaled_dot_product_attention:
            return _attend(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **options: Any,
) -> Tensor:
    attend = F.scaled_dot_product_attention
    if query.dtype not in HALF or dropout_p > 0 or key.shape[-2] > LONGEST_IN_FLOAT32:
        return attend(query, key, value, attn_mask, dropout_p, is_causal, **options)
    if attn_mask is not None and attn_mask.is_floating_point():
        attn_mask = attn_mask.float()
    with torch.autocast("cpu", enabled=False):
        attended = attend(query.float(), key.float(), value.float(), attn_mask, 0.0, is_causal, **options)
    return attended.to(query.dtype)
