"""Which tokens a causal model's tokens see."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from sts_lightning.errors import ConfigError
from sts_lightning.models.limits import layer_windows


def is_causal(backbone: PreTrainedModel) -> bool:
    """Whether no token of the model sees a later token."""
    flags = _flags(backbone)
    return bool(flags) and all(flags)


def _flags(backbone: PreTrainedModel) -> list[bool]:
    """What each attention layer says of itself; some families (Bloom) say nothing."""
    said = [module.__dict__.get("is_causal") for module in backbone.modules()]
    return [flag for flag in said if isinstance(flag, bool)]


def make_bidirectional(backbone: PreTrainedModel, count: int, longest: int) -> None:
    """Let the tokens in the last layers of a causal model see all tokens of their sentence, never padding.

    BeLLM does so in the last layer of LLaMA2-7B. Deviation from its code: that shows the padding to the
    tokens too, since its mask is all zeros.

    Args:
        backbone: The model, changed in place.
        count: Number of last layers; -1 for all.
        longest: Tokens of the longest row.

    Raises:
        ConfigError: The model is not causal, is of a kind that cannot be changed, has not as many layers, or
            a layer's attention window is smaller than the longest row. What a token should see beyond a
            window is not defined, and the mask of the last token holds only for rows within it.
    """
    layers: list[tuple[nn.Module, Any]] = [
        (module, attention)
        for module in backbone.modules()
        if isinstance(attention := getattr(module, "self_attn", None), nn.Module)
        and getattr(attention, "is_causal", False)
    ]
    name = type(backbone).__name__
    depth = backbone.config.num_hidden_layers
    if len(layers) != depth:
        if not layers and (flags := _flags(backbone)) and not any(flags):
            raise ConfigError(
                f"model.bidirectional_layers={count}: {name} is not causal; its tokens see each other "
                "already. Set it to 0."
            )
        raise ConfigError(
            f"model.bidirectional_layers={count} is not supported for {name}: {len(layers)} of its {depth} "
            "layers have a causal self_attn whose mask can be replaced. Set it to 0."
        )
    if not -1 <= count <= depth:
        raise ConfigError(
            f"model.bidirectional_layers={count} must lie between 0 and {depth}, or be -1 for all."
        )
    chosen = range(depth) if count == -1 else range(depth - count, depth)
    windows = layer_windows(backbone.config, depth)
    narrow = min((width for index in chosen if (width := windows[index]) is not None), default=longest)
    if narrow < longest:
        raise ConfigError(
            f"model.bidirectional_layers={count}: rows can have {longest} tokens, more than the {narrow} of "
            f"the attention window of {name}; lower model.max_length by {longest - narrow}, or set "
            "model.bidirectional_layers=0."
        )
    for layer, attention in (layers[index] for index in chosen):
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
