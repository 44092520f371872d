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


def set_attention(backbone: PreTrainedModel, settings: Mapping[str, Any], name: str) -> None:
    """Give a backbone the implementation that the settings of its configuration ask for.

    Args:
        backbone: Model, changed in place.
        settings: Settings of the model's configuration.
        name: Name of the model, for the message.

    Raises:
        ConfigError: It is not in `Attention`, or transformers has no such implementation for this model.
    """
    for wanted in (settings[key] for key in NAMES if settings.get(key) is not None):
        try:
            if wanted not in get_args(Attention):
                raise ValueError
            backbone.set_attn_implementation(wanted)
            if backbone.config._attn_implementation != wanted:
                raise ValueError
        except ValueError as error:
            raise ConfigError(
                f"{KEY}={wanted}: {type(backbone).__name__} ({name}) has no such implementation here; "
                f"{' and '.join(get_args(Attention))} are known.",
                key=KEY,
                hint="Leave it out: on a GPU, torch's sdpa itself runs a fused kernel, for causal models in "
                "half precision that of FlashAttention 2.",
            ) from error
