"""Checks of the arguments of a sentence encoder."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict, get_args

from transformers import PreTrainedModel

from sts_lightning.choices import Denoise
from sts_lightning.errors import ConfigError
from sts_lightning.models.pooling import POOLINGS, Pooling
from sts_lightning.models.projection import Projection
from sts_lightning.models.template import MASK

if TYPE_CHECKING:
    from peft import PeftConfig


class OwnSettings(TypedDict, total=False):
    """Arguments of `SentenceEncoder` that no pipeline of another library has."""

    layer: int
    view_templates: Sequence[str] | None
    denoise: Denoise
    denoise_evaluation: bool
    adapter: PeftConfig | None
    bidirectional_layers: int


class EncoderSettings(OwnSettings, total=False):
    """Arguments of `SentenceEncoder` besides backbone and tokenizer, for functions that pass them on."""

    pooling: Pooling
    max_length: int
    template: str | None
    projection: Projection
    limit: int | None
    normalize: bool


def check_settings(
    backbone: PreTrainedModel,
    pooling: Pooling,
    layer: int,
    template: str | None,
    view_templates: Sequence[str] | None,
    denoise: Denoise,
    projection: Projection,
) -> None:
    """Reject arguments of `SentenceEncoder` that are out of range or do not fit together.

    Args:
        backbone: Backbone without its adapter.
        pooling: See `SentenceEncoder`, also for the arguments below.
        layer: Layer whose output is pooled.
        template: Template of evaluation.
        view_templates: Templates of training.
        denoise: Vector that is subtracted in training.
        projection: Layer on top.

    Raises:
        ValueError: An argument is out of range, or the arguments do not fit together.
        ConfigError: The backbone's configuration lacks its depth or width.
    """
    name = type(backbone).__name__
    if pooling not in POOLINGS:
        raise ValueError(f"pooling must be one of {', '.join(POOLINGS)}, got {pooling!r}.")
    if projection not in get_args(Projection):
        raise ValueError(f"projection must be one of {', '.join(get_args(Projection))}, got {projection!r}.")
    texts = [template or "", *(view_templates or [])]
    if pooling == "mask_token" and not all(MASK in text for text in texts):
        raise ValueError(f"pooling 'mask_token' needs a template with {MASK}, such as prompt=promptbert.")
    for key in ("num_hidden_layers", "hidden_size"):
        if not isinstance(getattr(backbone.config, key, None), int):
            raise ConfigError(
                f"{name} is not supported: its configuration has no {key}. Choose another model."
            )
    depth = backbone.config.num_hidden_layers
    if not -depth <= layer <= -1:
        raise ValueError(f"layer must lie between {-depth} and -1, the last layer, got {layer}.")
    if layer != -1 and pooling == "first_last_mean":
        raise ValueError(f"layer must be -1 with pooling 'first_last_mean', got {layer}.")
    if denoise != "none" and "position_ids" not in inspect.signature(backbone.forward).parameters:
        raise ValueError(
            f"denoise {denoise!r} needs a model that takes position_ids, which {name} does not; "
            "set prompt.denoise=none."
        )
