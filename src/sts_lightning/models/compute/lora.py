"""Dropout of LoRA without a dropped copy of its input: the backward pass draws the same mask again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

LAYERS = {
    "peft.tuners.lora.layer": ("Linear",),
    "peft.tuners.lora.bnb": ("Linear4bit", "Linear8bitLt"),
}
"""peft's LoRA layers whose forward pass is base(x) + scale * B(A(dropout(x))), by module."""

REPLAYED = ("cpu", "cuda")
"""Devices whose dropout can be drawn again exactly."""


def save_inputs_once(model: nn.Module) -> None:
    r"""Let the LoRA layers of a model keep their common input instead of a dropped copy each.

    Every projection draws a different mask. peft's layers keep, for the gradient of A, a dropped copy of the
    input and the mask, so that q, k and v hold six tensors of the size of the one that they read; without
    dropout they keep a copy in the dtype of the products. Here they hold that input, once, and the state of
    the random generator; the backward pass repeats the draw. Losses, gradients and random numbers are those
    of peft, bit for bit. DoRA and other variants are left as they are.

    Args:
        model: Model with peft adapters, changed in place; the names of its weights stay.
    """
    for layer in model.modules():
        layer_class: Any = type(layer)
        if layer_class.__name__ in LAYERS.get(layer_class.__module__, ()):
            _replace(layer, keeps_dtype=layer_class.__module__.endswith("bnb"))


def _replace(layer: Any, keeps_dtype: bool) -> None:
    replaced = False
    for name, dropout in list(layer.lora_dropout.items()):
        factor = layer.lora_A[name]
        rate = getattr(dropout, "p", 0.0)
        known = type(dropout) in (nn.Dropout, nn.Identity) and rate < 1 and name not in layer.lora_variant
        usual = known and type(factor) is nn.Linear and factor.bias is None
        if usual:
            layer.lora_A[name] = DroppedLinear(factor, rate, keeps_dtype)
            layer.lora_dropout[name] = nn.Identity()
            replaced = True
    if replaced and all(isinstance(factor, DroppedLinear) for factor in layer.lora_A.values()):
        layer.cast_input_dtype_enabled = False  # `DroppedLinear` converts, and keeps what was there before


class DroppedLinear(nn.Linear):
    """LoRA's first factor A with the dropout of its input: A(dropout(x)).

    Args:
        factor: A, whose weight is taken over.
        rate: Dropout rate, in [0, 1).
        keeps_dtype: Whether the input keeps its dtype under CUDA's autocast, as in peft's quantised layers;
            otherwise it is converted to that of A.
    """

    def __init__(self, factor: nn.Linear, rate: float, keeps_dtype: bool) -> None:
        super().__init__(factor.in_features, factor.out_features, bias=False, device="meta")
        self.weight = factor.weight
        self.rate = rate
        self.keeps_dtype = keeps_dtype
        self.train(factor.training)

    def forward(self, input: Tensor) -> Tensor:
        """Compute A(dropout(x)), in evaluation A(x): (..., D) -> (..., r)."""
        dtype = input.dtype if self.keeps_dtype and torch.is_autocast_enabled() else self.weight.dtype
        if not self.training:
            return F.linear(input.to(dtype), self.weight)
        if self.rate > 0 and input.device.type not in REPLAYED:
            return F.linear(F.dropout(input.to(dtype), self.rate), self.weight)
        projected: Tensor = _DroppedLinear.apply(input, self.weight, self.rate, dtype)  # type: ignore[no-untyped-call]
        return projected

    def extra_repr(self) -> str:
        """Return sizes and rate."""
        return f"{super().extra_repr()}, dropout={self.rate}"


class _DroppedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, rate: float, dtype: torch.dtype) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.state, ctx.rate, ctx.dtype = _random_state(x.device) if rate else None, rate, dtype
        return F.linear(F.dropout(x.to(dtype), rate), weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        x, weight = ctx.saved_tensors
        gpus = [x.device] if x.is_cuda else []
        with torch.random.fork_rng(gpus, ctx.rate > 0), torch.autocast(x.device.type, enabled=False):
            if ctx.rate:
                _set_random_state(x.device, ctx.state)
            dropped, through = _drop(x.to(ctx.dtype), ctx.rate)
            rows = grad.reshape(-1, grad.shape[-1])  # in the dtype of the product, bfloat16 under autocast
            grad_x = grad_weight = None
            if ctx.needs_input_grad[1]:
                inputs = dropped.reshape(-1, dropped.shape[-1]).to(grad.dtype)
                grad_weight = (rows.t() @ inputs).to(weight.dtype)
            if ctx.needs_input_grad[0]:
                back = (rows @ weight.to(grad.dtype)).reshape(x.shape)
                grad_x = through(back.to(ctx.dtype)).to(x.dtype)
        return grad_x, grad_weight, None, None


def _drop(x: Tensor, rate: float) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Apply dropout with the draws and the roundings of ``F.dropout``; return its backward pass too."""
    if rate == 0:  # ``F.dropout`` then draws nothing
        return x, lambda grad: grad
    if x.is_cuda:
        dropped, mask = torch.native_dropout(x, rate, True)
        return dropped, lambda grad: torch.ops.aten.native_dropout_backward(grad, mask, 1 / (1 - rate))
    noise = torch.empty_like(x).bernoulli_(1 - rate).div_(1 - rate)
    return x * noise, lambda grad: grad * noise


def _random_state(device: torch.device) -> Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def _set_random_state(device: torch.device, state: Tensor) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)
