"""Implementation of attention in the backbone: ``model.config.attn_implementation``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from transformers import PreTrainedModel

from sts_lightning.choices import Attention
from sts_lightning.errors import ConfigError

KEY = "model.config.attn_implementation"
NAMES = ("attn_implementation", "_attn_implementation")
"""Names of the setting in transformers, as an argument and as an attribute of a model's configuration."""


def check_attention(settings: Mapping[str, Any]) -> None:
    """Reject an implementation that is not supported here.

    Args:
        settings: Settings of the model's configuration.

    Raises:
        ConfigError: It is another one than `Attention` has.
    """
    for wanted in _asked_for(settings):
        if wanted not in get_args(Attention):
            raise ConfigError(
                f"{KEY}={wanted} must be {' or '.join(get_args(Attention))}.",
                key=KEY,
                hint="On a GPU, torch's sdpa itself runs a fused kernel: that of FlashAttention 2 for causal "
                "models in half precision, a memory-efficient one for rows with padding.",
            )


def set_attention(backbone: PreTrainedModel, settings: Mapping[str, Any], name: str) -> None:
    """Give a backbone the implementation that the settings of its configuration ask for.

    Args:
        backbone: Model, changed in place.
        settings: Settings of the model's configuration, as for `check_attention`.
        name: Name of the model, for the message.

    Raises:
        ConfigError: transformers has no such implementation for this model.
    """
    for wanted in _asked_for(settings):
        try:
            backbone.set_attn_implementation(wanted)
        except ValueError as error:
            raise _not_supported(wanted, backbone, name) from error
        if backbone.config._attn_implementation != wanted:
            raise _not_supported(wanted, backbone, name)


def _asked_for(settings: Mapping[str, Any]) -> list[Any]:
    return [settings[name] for name in NAMES if settings.get(name) is not None]


def _not_supported(wanted: str, backbone: PreTrainedModel, name: str) -> ConfigError:
    return ConfigError(
        f"{KEY}={wanted}: {type(backbone).__name__} ({name}) has no such implementation.",
        key=KEY,
        hint="Leave it out to use the one that the model has.",
    )
