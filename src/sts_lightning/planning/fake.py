"""Modules whose tensors have shape, dtype and a device, but no memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F

from sts_lightning.core.errors import ConfigError
from sts_lightning.models.compute import cpu_attention, lora
from sts_lightning.models.loading.quantization import is_quantised


def fake_mode() -> FakeTensorMode:
    """Return a mode in which operations take and return fake tensors; real inputs are converted."""
    return FakeTensorMode(allow_non_fake_inputs=True)


@contextmanager
def explaining_untraceable() -> Iterator[None]:
    """Turn the errors of operations that need the values of tensors into one of the configuration.

    Raises:
        ConfigError: The model or the loss cannot be traced without values.
    """
    try:
        yield
    except RuntimeError as error:  # the base class of all errors of fake tensors
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise ConfigError(
            f"no step of this model can be traced without its values ({reason}).", key="model"
        ) from error


def make_fake(module: nn.Module, mode: FakeTensorMode) -> None:
    """Replace all parameters and buffers of a module by fake tensors on the CPU, in place.

    Weights of bitsandbytes' layers become packed ones with their scales. Tensors that modules share stay
    shared.
    """
    made: dict[int, Any] = {}
    for part in list(module.modules()):
        if _packs(part):
            _quantise(part, mode)
        for name, parameter in list(part._parameters.items()):
            if parameter is not None and not hasattr(parameter, "quant_state"):
                if id(parameter) not in made:
                    fake = nn.Parameter(_empty_like(parameter, mode), parameter.requires_grad)
                    made[id(parameter)] = (fake, parameter)
                part._parameters[name] = made[id(parameter)][0]
        for name, buffer in list(part._buffers.items()):
            if buffer is not None:
                if id(buffer) not in made:
                    made[id(buffer)] = (_empty_like(buffer, mode), buffer)
                part._buffers[name] = made[id(buffer)][0]
        for name, value in list(vars(part).items()):
            if isinstance(value, Tensor) and value.is_meta:  # such as the frequencies of rotary positions
                setattr(part, name, _empty_like(value, mode))


def stored_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield parameters, buffers and the scales of quantised weights, by name."""
    yield from module.named_parameters()
    yield from module.named_buffers()
    for name, part in module.named_modules():
        state = getattr(part, "quant_state", None) if _packs(part) else None
        for level in (state, getattr(state, "state2", None)):
            for key, value in vars(level).items() if level is not None else ():
                if isinstance(value, Tensor):
                    yield f"{name}.{key}", value


def _packs(part: nn.Module) -> bool:
    """Return whether a module is a layer of bitsandbytes; peft's layers around them have the same name."""
    return isinstance(part, nn.Linear) and is_quantised(part)


def _empty_like(tensor: Tensor, mode: FakeTensorMode) -> Tensor:
    with mode:
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")


def _quantise(layer: Any, mode: FakeTensorMode) -> None:
    """Give a 4-bit layer a packed fake weight and its scales, as loading from files does.

    Raises:
        ConfigError: The layer has 8 bits.
    """
    from bitsandbytes import functional

    weight = layer.weight
    if not hasattr(weight, "quant_type"):
        raise ConfigError(
            "a plan knows no 8-bit weights: their kernels cannot be traced.",
            key="model.quantization",
            hint="Plan with model.quantization=4bit, which takes less memory, or none, which takes more.",
        )
    tables: Any = functional
    tables.name2qmap.setdefault("dynamic", tables.create_dynamic_map())  # which needs real numbers
    with mode:
        full = torch.empty(weight.shape, dtype=layer.compute_dtype, device="cpu")
        packed, state = functional.quantize_4bit(
            full, compress_statistics=weight.compress_statistics, quant_type=weight.quant_type
        )
    parameter = nn.Parameter(packed, requires_grad=False)
    # bitsandbytes' class cannot hold a fake tensor; its functions only ask for these attributes.
    parameter.quant_state, parameter.bnb_quantized = state, True  # type: ignore[attr-defined]
    layer.weight, layer.quant_state = parameter, state


@contextmanager
def gpu_kernels() -> Iterator[None]:
    """Replace functions that take another path on a CPU than on CUDA, since fake tensors are on the CPU.

    Dropout keeps a mask of one byte per element instead of one in the dtype of its input, that of LoRA too,
    which the backward pass draws again. Attention with dropout runs in a fused kernel, which keeps no
    probabilities; in half precision it stays in half precision. Norms and softmax are in float32 under
    autocast, and who asks for autocast without naming a device means that of CUDA.
    """
    enabled = torch.is_autocast_enabled
    ours = {
        "dropout": _dropout,
        "scaled_dot_product_attention": _fused(F.scaled_dot_product_attention),
        "layer_norm": _in_float32(F.layer_norm),
        "softmax": _in_float32(F.softmax),
    }
    with (
        replaced(F, ours),  # where modules look functions up, in the backward pass of a checkpoint too
        replaced(torch, {"is_autocast_enabled": lambda device_type="cpu": enabled(device_type)}),
        replaced(lora, {"_drop": _drop, "SAME_DRAWS": ()}),
        replaced(cpu_attention, {"half_attention": lambda backbone: nullcontext()}),
    ):
        yield


@contextmanager
def cpu_kernels() -> Iterator[None]:
    """Replace what reads its random numbers: LoRA's dropout, which drops the expected number of elements."""

    def dropped(count: int, rate: float) -> Tensor:
        return torch.empty(round(count * rate), dtype=torch.int64)

    with replaced(lora, {"_dropped": dropped}):
        yield


@contextmanager
def replaced(module: Any, functions: dict[str, Any]) -> Iterator[None]:
    """Replace functions or values of a module by others, by name."""
    originals = {name: getattr(module, name) for name in functions}
    for name, function in functions.items():
        setattr(module, name, function)
    try:
        yield
    finally:
        for name, function in originals.items():
            setattr(module, name, function)


def _dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    dropped: Tensor = torch.native_dropout(input, p, True)[0] if training and p > 0 else input
    return dropped


def _drop(x: Tensor, rate: float) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    if rate == 0:
        return x, lambda grad: grad
    dropped, mask = torch.native_dropout(x, rate, True)
    return dropped, lambda grad: torch.ops.aten.native_dropout_backward(grad, mask, 1 / (1 - rate))


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
