"""Quantisation of linear layers with bitsandbytes: settings, moved weights, dequantisation."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import BitsAndBytesConfig, PreTrainedModel
from transformers.pytorch_utils import Conv1D

from sts_lightning.core.choices import Quantization
from sts_lightning.core.errors import check_choice


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
    # The library cannot turn round how it read quantised tensors of a file, and would try when it writes.
    conversions: Any = getattr(backbone, "_weight_conversions", None) or []
    kept: Any = [each for each in conversions if not _of_bitsandbytes(each)] or None
    backbone._weight_conversions = kept
    for name in turned:
        linear: Any = backbone.get_submodule(name)
        layer = Conv1D(linear.out_features, linear.in_features)
        layer.weight = nn.Parameter(linear.weight.data.T.contiguous())
        layer.bias = linear.bias
        backbone.set_submodule(name, layer)
    return backbone


def _of_bitsandbytes(conversion: Any) -> bool:
    return any("bitsandbytes" in type(step).__module__ for step in getattr(conversion, "operations", []))


def is_quantized(module: Any) -> bool:
    """Return whether a module is a linear layer of bitsandbytes, without importing that optional package."""
    return any(base.__name__ in ("Linear4bit", "Linear8bitLt") for base in type(module).__mro__)
