"""Which tokens a causal model's tokens see."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from sts_lightning.errors import ConfigError


def is_causal(backbone: PreTrainedModel) -> bool:
    """Whether no token of the model sees a token behind it."""
    flags = [
        module.is_causal
        for module in backbone.modules()
        if isinstance(module.__dict__.get("is_causal"), bool)
    ]
    return bool(flags) and all(flags)


def make_bidirectional(backbone: PreTrainedModel, count: int) -> None:
    """Let the tokens in the last layers of a causal model see all tokens of their sentence, never padding.

    BeLLM does so in the last layer of LLaMA2-7B. Deviation from its code: that shows the padding to the
    tokens too, since its mask is all zeros.

    Args:
        backbone: The model, changed in place.
        count: How many of the last layers; -1 for all.

    Raises:
        ConfigError: The model is not causal, or has not as many layers.
    """
    layers: list[tuple[nn.Module, Any]] = [
        (module, attention)
        for module in backbone.modules()
        if isinstance(attention := getattr(module, "self_attn", None), nn.Module)
        and getattr(attention, "is_causal", False)
    ]
    if not layers:
        raise ConfigError(
            f"model.bidirectional_layers: {type(backbone).__name__} is not causal; its tokens see each other "
            "already."
        )
    if not -1 <= count <= len(layers):
        raise ConfigError(
            f"model.bidirectional_layers={count} must lie between 0 and {len(layers)}, or be -1 for all."
        )
    for layer, attention in layers if count == -1 else layers[-count:]:
        attention.is_causal = False
        layer.register_forward_pre_hook(_unmask, with_kwargs=True)


def _unmask(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Give all tokens the mask of the last one, (N, 1, L, L): it sees every token that is no padding.

    Where nothing is padded there is no mask at all, and ``is_causal`` alone decides.
    """
    mask = kwargs.get("attention_mask")
    if isinstance(mask, Tensor):
        kwargs = {**kwargs, "attention_mask": mask[..., -1:, :].expand_as(mask)}
    return args, kwargs
