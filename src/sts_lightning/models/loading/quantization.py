"""Quantisation of linear layers with bitsandbytes: requirements, coverage of the model, dequantisation."""

from __future__ import annotations

import importlib.util
import logging
from typing import Any

import torch
from torch import nn
from transformers import BitsAndBytesConfig, PreTrainedModel
from transformers.pytorch_utils import Conv1D

from sts_lightning.core.choices import Quantization
from sts_lightning.core.text import check_choice

log = logging.getLogger(__name__)

MIN_FRACTION = 0.9
"""Minimum fraction of the linear weights that must have been quantised.

Routers, low-rank factors and convolution kernels keep their precision and are a few per cent of a model. A
model below the minimum has its main matrices in modules that bitsandbytes does not quantise, and would need
nearly the memory of the original.
"""


def check_quantization(quantization: Quantization) -> None:
    """Raise a `ValueError` for an unknown quantisation, or one whose libraries are not installed."""
    check_choice("quantization", quantization, Quantization)
    if quantization != "none":
        missing = [name for name in ("bitsandbytes", "accelerate") if importlib.util.find_spec(name) is None]
        if missing:
            raise ValueError(
                f"quantization {quantization!r} needs {' and '.join(missing)}: "
                f"pip install {' '.join(missing)}, if there are wheels for this platform; or set it to none."
            )


def quantization_config(quantization: Quantization, dtype: torch.dtype) -> BitsAndBytesConfig:
    """Return the settings of bitsandbytes.

    Args:
        quantization: ``4bit`` or ``8bit``.
        dtype: Compute dtype of 4-bit weights.
    """
    if quantization == "8bit":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
    )


def check_fraction(backbone: PreTrainedModel, quantization: Quantization, name: str) -> None:
    """Log the quantised fraction of a model, and reject a model of which too little was quantised.

    bitsandbytes replaces ``nn.Linear`` and GPT-2's ``Conv1D`` and nothing else: not subclasses (Falcon's
    linear layers), not the stacked expert matrices of mixtures. Weights that the model class itself keeps in
    full precision (``wo`` of T5) lower the fraction that is logged, but are no reason to reject it.

    Args:
        backbone: Model as loaded, without its head.
        quantization: ``4bit`` or ``8bit``.
        name: Name of the model, for the message.

    Raises:
        ValueError: Less than `MIN_FRACTION` of the linear weights is quantised.
    """
    sizes = linear_weights(backbone)
    kept_names = getattr(backbone, "_keep_in_fp32_modules", None) or []
    quantised = sum(size for size, done in sizes.values() if done)
    total = sum(size for size, _ in sizes.values())
    rest = {key: size for key, (size, done) in sizes.items() if not done}
    kept = sum(size for key, size in rest.items() if set(key.split(".")) & set(kept_names))
    fraction = quantised / max(1, total)
    bits = quantization.removesuffix("bit")
    if quantised < MIN_FRACTION * max(1, total - kept):
        largest = max(rest, key=lambda key: rest[key], default="none found")
        raise ValueError(
            f"quantization {quantization!r} reaches {fraction:.0%} of the {total:,} linear weights of "
            f"{name} ({type(backbone).__name__}): bitsandbytes does not know the classes of the other "
            f"layers, such as {largest}. Set it to none."
        )
    log.info("%s bit: %.0f %% of %s linear weights", bits, 100 * fraction, f"{total:,}")


def follow_weights(module: nn.Module) -> None:
    """Move what bitsandbytes keeps beside 8-bit weights after the weights have been moved.

    From the first forward pass on, the layer holds the weights a second time, together with their scales, in
    an object that moving a whole model does not reach: the copy would stay on the GPU, take its memory twice
    when the model comes back, and fail on another device.
    """
    for layer in module.modules():
        state = getattr(layer, "state", None)
        if is_quantised(layer) and state is not None and state.CB is not None:
            weight: Any = layer.weight
            state.CB = weight.data
            state.SCB = state.SCB.to(weight.device)


def linear_weights(backbone: nn.Module) -> dict[str, tuple[int, bool]]:
    """Return the size of each matrix that multiplies activations, and whether it is quantised, by name.

    These are all parameters of two or more dimensions except embedding tables and biases, so that expert
    matrices outside linear layers count too.
    """
    tables = {
        id(parameter)
        for module in backbone.modules()
        if isinstance(module, nn.Embedding)
        for parameter in module.parameters(recurse=False)
    }
    sizes: dict[str, tuple[int, bool]] = {}
    for path, module in backbone.named_modules():
        for key, parameter in module.named_parameters(recurse=False):
            name = f"{path}.{key}".removeprefix(".")
            if is_quantised(module) and key == "weight":
                sizes[name] = (module.in_features * module.out_features, True)
            elif parameter.ndim >= 2 and id(parameter) not in tables and not key.endswith("bias"):
                sizes[name] = (parameter.numel(), False)
    return sizes


def dequantized(backbone: PreTrainedModel) -> PreTrainedModel:
    """Dequantise a model in place, and restore the original class of each layer.

    The library makes each layer an ``nn.Linear``. GPT-2's ``Conv1D`` holds the transposed matrix, and
    exported square matrices of the wrong orientation would load without an error.
    """
    if not any(is_quantised(module) for module in backbone.modules()):
        return backbone
    turned = [
        name
        for name, module in backbone.named_modules()
        if is_quantised(module) and getattr(module, "source_cls", None) is Conv1D
    ]
    backbone = backbone.dequantize()
    for name in turned:
        linear: Any = backbone.get_submodule(name)
        layer = Conv1D(linear.out_features, linear.in_features)
        layer.weight = nn.Parameter(linear.weight.data.T.contiguous())
        layer.bias = linear.bias
        backbone.set_submodule(name, layer)
    return backbone


def is_quantised(module: Any) -> bool:
    """Return whether a module is a linear layer of bitsandbytes, without importing that optional package."""
    return any(base.__name__ in ("Linear4bit", "Linear8bitLt") for base in type(module).__mro__)
