"""Bidirectional attention in the layers of decoders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from sts_lightning.models.loading.backbone import causal_flags


def make_bidirectional(backbone: PreTrainedModel, count: int) -> None:
    """Make the last layers of a causal model bidirectional: tokens attend to all tokens, never to padding.

    BeLLM does this in the last layer of LLaMA2-7B. Deviation from its code, whose mask of zeros lets tokens
    attend to padding too.

    Args:
        backbone: Model, changed in place.
        count: Number of last layers; -1 for all.

    Raises:
        ValueError: The model is not causal, its layers cannot be changed, or it has fewer layers.
    """
    layers: list[tuple[nn.Module, Any]] = [
        (module, attention)
        for module in backbone.modules()
        if isinstance(attention := getattr(module, "self_attn", None), nn.Module)
        and getattr(attention, "is_causal", False)
    ]
    name = type(backbone).__name__
    depth = backbone.config.num_hidden_layers
    if (flags := causal_flags(backbone)) and not any(flags):
        raise ValueError(
            f"bidirectional_layers must be 0: {name} is not causal, its layers are bidirectional already."
        )
    if len(layers) != depth:
        raise ValueError(
            f"bidirectional_layers is not supported for {name}: {len(layers)} of its {depth} "
            "layers have a causal self_attn whose mask can be replaced. Set it to 0."
        )
    if not -1 <= count <= depth:
        raise ValueError(
            f"bidirectional_layers must lie between 0 and {depth}, or be -1 for all, got {count}."
        )
    for layer, attention in layers if count == -1 else layers[depth - count :]:
        attention.is_causal = False
        layer.register_forward_pre_hook(_unmask, with_kwargs=True)


def _unmask(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Replace the mask of each token by that of the last one, (N, 1, L, L), which hides padding only.

    Without padding there is no mask, and ``is_causal`` alone decides.
    """
    mask = kwargs.get("attention_mask")
    if isinstance(mask, Tensor):
        kwargs = {**kwargs, "attention_mask": mask[..., -1:, :].expand_as(mask)}
    return args, kwargs


def layer_windows(config: PreTrainedConfig, depth: int) -> Sequence[int | None]:
    """Return the width of each layer's attention window in tokens, the token itself included; None for all.

    Args:
        config: Configuration of the model.
        depth: Number of layers.
    """
    types = getattr(config, "layer_types", None)
    widths = {
        "sliding_attention": getattr(config, "sliding_window", None),
        "chunked_attention": getattr(config, "attention_chunk_size", None),
    }
    if types is None:
        return [widths["sliding_attention"]] * depth
    return [widths.get(layer_type) for layer_type in types]
