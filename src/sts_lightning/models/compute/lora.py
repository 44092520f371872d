"""LoRA's term added to the base output by one product, without a dropped copy of its input."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from importlib import import_module
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

SAME_DRAWS = ("cpu",)
"""Devices that draw the same elements in each dtype."""


def fuse(model: nn.Module) -> None:
    r"""Let the LoRA layers of a model add their term in one pass, and keep their common input once.

    .. math:: y = W x + b + s\,B A\,\mathrm{dropout}(x)

    peft's layers copy the output of the base (4 bit), and scale and add the term, each a pass over the
    output; here B's product is added to the output where that lies. peft's also keep, for the gradient of A,
    a dropped copy of the input and the mask, so that q, k and v hold six tensors of the size of the one that
    they read, and without dropout a copy in the dtype of the products. Here they hold that input, once, and
    the state of the random generator; the backward pass repeats the draw.

    Losses and gradients are those of peft but for rounding, since the term is not rounded before it is added:
    1e-6 in float32. On a GPU random numbers are peft's too; on a CPU dropout draws fewer of them (see
    `_dropped`). In evaluation outside autocast the term has the dtype of the base output, where peft computes
    it in that of the factors, float32.

    DoRA and other variants, merged or disabled adapters, and factors with a bias run through peft's own
    forward pass.

    Args:
        model: Model with peft adapters, changed in place; the names of its weights stay.
    """
    for layer in model.modules():
        kind: Any = type(layer)
        if kind.__name__ in LAYERS.get(kind.__module__, ()):
            layer.__class__ = _fused(kind)


@cache
def _fused(kind: type[nn.Module]) -> type[nn.Module]:
    keeps_dtype = kind.__module__.endswith("bnb")
    return type(kind.__name__, (FusedLayer, kind), {"__module__": __name__, "keeps_dtype": keeps_dtype})


def __getattr__(name: str) -> type[nn.Module]:
    """Return a fused class, which pickle looks up by its name; peft is imported by those who have a layer."""
    for module, names in LAYERS.items():
        if name in names:
            return _fused(getattr(import_module(module), name))
    raise AttributeError(name)


class FusedLayer:
    """Forward pass of a layer of peft.

    Attributes:
        keeps_dtype: Whether the input of dropout keeps its dtype under CUDA's autocast, as in peft's
            quantised layers; otherwise it is converted to that of A.
    """

    keeps_dtype: bool

    def forward(self: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Compute base(x) + scale * B(A(dropout(x))): (..., D) to (..., out)."""
        names = [name for name in self.active_adapters if name in self.lora_A]
        unusual = args or kwargs or self.disable_adapters or self.merged
        if unusual or not all(_is_plain(self, name, x.device) for name in names):
            peft_result: Tensor = super().forward(x, *args, **kwargs)  # type: ignore[misc]
            return peft_result
        result: Tensor = self.base_layer(x)
        for name in names:
            first, second = self.lora_A[name].weight, self.lora_B[name].weight
            dropout = self.lora_dropout[name]
            rate = dropout.p if isinstance(dropout, nn.Dropout) and dropout.training else 0.0
            if torch.is_autocast_enabled(x.device.type):
                product = torch.get_autocast_dtype(x.device.type)
            else:
                product = first.dtype if self.training else result.dtype
            drawn = x.dtype if self.keeps_dtype and torch.is_autocast_enabled() else first.dtype
            if rate == 0 or x.device.type in SAME_DRAWS:  # the input is then converted once
                drawn = product
            settings = (self.scaling[name], rate, drawn, product)
            result = _Added.apply(result, x, first, second, *settings)  # type: ignore[no-untyped-call]
        return result


def _is_plain(layer: Any, name: str, device: torch.device) -> bool:
    dropout, factors = layer.lora_dropout[name], (layer.lora_A[name], layer.lora_B[name])
    return (
        name not in layer.lora_variant
        and all(type(factor) is nn.Linear and factor.bias is None for factor in factors)
        and (type(dropout) is nn.Identity or (type(dropout) is nn.Dropout and device.type in REPLAYED))
    )


class _Added(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        result: Tensor,
        x: Tensor,
        first: Tensor,
        second: Tensor,
        scale: float,
        rate: float,
        drawn: torch.dtype,
        product: torch.dtype,
    ) -> Tensor:
        """Add scale * B(A(dropout(x))) to a base output, drawing in one dtype and multiplying in another."""
        ctx.state = _random_state(x.device) if rate else None
        ctx.settings = scale, rate, drawn, product
        dropped, _ = _drop(x.to(drawn), rate)
        hidden = F.linear(dropped.to(product), first.to(product)).flatten(0, -2)
        ctx.save_for_backward(x, first, second, hidden)
        # A linear layer does not need its output again. Of a view autograd would copy the whole gradient.
        if result._is_view():
            result = result.clone()
        else:
            ctx.mark_dirty(result)
        rows, factor = result.view(-1, result.shape[-1]), second.to(product).t()
        if rows.dtype == product:
            rows.addmm_(hidden, factor, alpha=scale)
        else:
            rows.add_(hidden @ factor, alpha=scale)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, first, second, hidden = ctx.saved_tensors
        scale, rate, drawn, product = ctx.settings
        gpus = [x.device] if x.is_cuda else []
        grad_x = grad_first = grad_second = None
        with torch.random.fork_rng(gpus, rate > 0), torch.autocast(x.device.type, enabled=False):
            if rate:
                _set_random_state(x.device, ctx.state)
            rows = grad.reshape(-1, grad.shape[-1]).to(product)
            back = (rows @ second.to(product)).mul_(scale)
            if ctx.needs_input_grad[3]:
                grad_second = (rows.t() @ hidden).mul_(scale).to(second.dtype)
            dropped, through = _drop(x.to(drawn), rate)
            if ctx.needs_input_grad[2]:
                inputs = dropped.reshape(-1, dropped.shape[-1]).to(product)
                grad_first = (back.t() @ inputs).to(first.dtype)
            if ctx.needs_input_grad[1]:
                passed = (back @ first.to(product)).reshape(x.shape)
                grad_x = through(passed.to(drawn)).to(x.dtype)
        return grad, grad_x, grad_first, grad_second, None, None, None, None


def _drop(x: Tensor, rate: float) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Apply dropout with the draws of ``F.dropout``; return its backward pass too."""
    if rate == 0:  # ``F.dropout`` then draws nothing
        return x, lambda grad: grad
    if x.is_cuda:
        dropped, mask = torch.native_dropout(x, rate, True)
        return dropped, lambda grad: torch.ops.aten.native_dropout_backward(grad, mask, 1 / (1 - rate))
    positions, scale = _dropped(x.numel(), rate), 1 / (1 - rate)

    def drop(values: Tensor) -> Tensor:
        scaled = values.contiguous() * scale
        scaled.view(-1).index_fill_(0, positions, 0.0)
        return scaled

    return drop(x), drop


def _dropped(count: int, rate: float) -> Tensor:
    """Draw which of ``count`` elements are dropped, each with probability ``rate``, in increasing order.

    torch draws a number for each element, one core alone; in a decoder's step on two cores with the papers'
    LoRA that is 45 % of the time. Here one is drawn for each dropped element: the number of elements that
    are kept before it, which is geometric. Its uniform number has 24 bits, so a gap that is less likely than
    6e-8 does not occur.
    """
    expected = count * rate
    most, end, parts = int(expected + 4 * math.sqrt(expected)) + 16, -1, list[Tensor]()
    while end < count:
        gaps = torch.rand(most).neg_().log1p_().mul_(1 / math.log1p(-rate))
        parts.append(gaps.to(torch.int64).add_(1).cumsum_(0).add_(end))
        end = int(parts[-1][-1])
    positions = torch.cat(parts)
    return positions[: int(torch.searchsorted(positions, count))]


def _random_state(device: torch.device) -> Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def _set_random_state(device: torch.device, state: Tensor) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)
