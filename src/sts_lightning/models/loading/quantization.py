"""Quantisation of linear layers with bitsandbytes: settings, coverage of a model, weights, dequantisation."""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import nn
from transformers import BitsAndBytesConfig, PreTrainedModel
from transformers.pytorch_utils import Conv1D

from sts_lightning.core.choices import Quantization
from sts_lightning.core.errors import check_choice

log = logging.getLogger(__name__)

MIN_FRACTION = 0.5
"""Minimum fraction of the weights beside embeddings that must have been quantised.

Routers, low-rank factors, convolution kernels and what a class keeps in full precision (a quarter of T5) are
less. A model below it has its main matrices in modules that bitsandbytes does not quantise, and would need
nearly the memory of the original.
"""


def quantization_config(quantization: Quantization, dtype: torch.dtype) -> BitsAndBytesConfig:
    """Return the settings of bitsandbytes.

    Args:
        quantization: ``4bit`` or ``8bit``.
        dtype: Compute dtype of 4-bit weights.

    Raises:
        ValueError: The quantisation is unknown.
    """
    check_choice("quantization", quantization, Quantization)
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
    layers: list[Any] = [module for module in backbone.modules() if not isinstance(module, nn.Embedding)]
    quantized = sum(layer.in_features * layer.out_features for layer in layers if is_quantized(layer))
    others = (p for layer in layers if not is_quantized(layer) for p in layer.parameters(recurse=False))
    total = quantized + sum(p.numel() for p in others if p.ndim >= 2)
    fraction = quantized / max(1, total)
    if fraction < MIN_FRACTION:
        raise ValueError(
            f"quantization {quantization!r} reaches {fraction:.0%} of the {total:,} linear weights of "
            f"{name}: bitsandbytes does not know the layers of {type(backbone).__name__}. Set it to none."
        )
    log.info("%s: %.0f %% of %s linear weights", quantization, 100 * fraction, f"{total:,}")


def follow_weights(module: nn.Module) -> None:
    """Move what bitsandbytes keeps beside 8-bit weights after the weights have been moved.

    From the first forward pass on, the layer holds the weights a second time, together with their scales, in
    an object that moving a whole model does not reach: the copy would stay on the GPU, take its memory twice
    when the model comes back, and fail on another device.
    """
    for layer in module.modules():
        state = getattr(layer, "state", None)
        if is_quantized(layer) and state is not None and state.CB is not None:
            weight: Any = layer.weight
            state.CB = weight.data
            state.SCB = state.SCB.to(weight.device)


def dequantized(backbone: PreTrainedModel) -> PreTrainedModel:
    """Dequantise a model in place, and restore the original class of each layer.

    The library makes each layer an ``nn.Linear``. GPT-2's ``Conv1D`` holds the transposed matrix, and
    exported square matrices of the wrong orientation would load without an error.
    """
    if not any(is_quantized(module) for module in backbone.modules()):
        return backbone
    turned = [
        name
        for name, module in backbone.named_modules()
        if is_quantized(module) and getattr(module, "source_cls", None) is Conv1D
    ]
    backbone = backbone.dequantize()
    forget_reading(backbone)
    for name in turned:
        linear: Any = backbone.get_submodule(name)
        layer = Conv1D(linear.out_features, linear.in_features)
        layer.weight = nn.Parameter(linear.weight.data.T.contiguous())
        layer.bias = linear.bias
        backbone.set_submodule(name, layer)
    return backbone


def forget_reading(backbone: PreTrainedModel) -> None:
    """Let the library write a model: it cannot turn round how it read quantised tensors of a file."""
    conversions: Any = getattr(backbone, "_weight_conversions", None) or []
    kept: Any = [each for each in conversions if not _of_bitsandbytes(each)] or None
    backbone._weight_conversions = kept


def _of_bitsandbytes(conversion: Any) -> bool:
    return any("bitsandbytes" in type(step).__module__ for step in getattr(conversion, "operations", []))


def is_quantized(module: Any) -> bool:
    """Return whether a module is a linear layer of bitsandbytes, without importing that optional package."""
    return any(base.__name__ in ("Linear4bit", "Linear8bitLt") for base in type(module).__mro__)
