"""Encoders of encoder-decoder models: which class to load, which part to keep, how to write it down."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from transformers import AutoModel, AutoModelForTextEncoding, PreTrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_TEXT_ENCODING_MAPPING

from sts_lightning.errors import ConfigError

SHARED_STATE = (
    "hf_quantizer",
    "is_quantized",
    "quantization_method",
    "is_loaded_in_4bit",
    "is_loaded_in_8bit",
)
"""Attributes that the library sets on the model it loads and that the encoder needs as well."""


@dataclass(frozen=True)
class Origin:
    """The model that an encoder was taken from.

    Attributes:
        model: Name of its class, such as ``BartModel``.
        config: Its configuration, of which the encoder's may be a part.
        names: The encoder's name of each of its weights, by the name in the whole model. A tied weight occurs
            more than once.
    """

    model: str
    config: PreTrainedConfig
    names: dict[str, str]


def loader(config: PreTrainedConfig) -> type[AutoModel] | type[AutoModelForTextEncoding]:
    """Choose the library's loader for the encoder: T5's family has classes without a decoder.

    Args:
        config: The model's configuration; where such a class is used, it says afterwards that there is no
            decoder.
    """
    known = type(config) in MODEL_FOR_TEXT_ENCODING_MAPPING
    model: Any = MODEL_FOR_TEXT_ENCODING_MAPPING[type(config)] if known else None
    if not known or not model.__name__.endswith("EncoderModel") or not hasattr(config, "num_hidden_layers"):
        return AutoModel  # a configuration of two halves (T5Gemma) does not describe the encoder as its own
    config.is_encoder_decoder = False  # some of these classes do so themselves, others require it
    return AutoModelForTextEncoding


def take_encoder(model: PreTrainedModel, name: str) -> PreTrainedModel:
    """Take the encoder of an encoder-decoder; any other model is returned as it is.

    Args:
        model: A model as loaded.
        name: Name of the model, for the message.

    Raises:
        ConfigError: The model is an encoder-decoder without an encoder of text.
    """
    if not getattr(model.config, "is_encoder_decoder", False):
        return model
    encoder: Any = model.get_encoder()
    if encoder is model or not isinstance(encoder, PreTrainedModel):
        raise ConfigError(
            f"{name} is an encoder-decoder ({type(model).__name__}) whose encoder cannot be used alone; "
            "choose another model."
        )
    own = {id(weight): key for key, weight in _weights(encoder).items()}
    names = {key: own[id(weight)] for key, weight in _weights(model).items() if id(weight) in own}
    decoder = {key for key in names if key.startswith("decoder.")}  # its tied copy of the embeddings
    for attribute in SHARED_STATE:
        if hasattr(model, attribute):
            setattr(encoder, attribute, getattr(model, attribute))
    origin = Origin(type(model).__name__, model.config, {key: names[key] for key in names.keys() - decoder})
    object.__setattr__(encoder, "origin", origin)
    return encoder


def origin_of(backbone: nn.Module) -> Origin | None:
    """The encoder-decoder that this encoder was taken from, None for a model of its own."""
    origin = getattr(backbone, "origin", None)
    return origin if isinstance(origin, Origin) else None


def used_keys(backbone: PreTrainedModel, missing: set[str]) -> list[str]:
    """Those of the missing weights that the backbone uses: neither a decoder's nor a pooler's."""
    origin = origin_of(backbone)
    return sorted(
        key for key in missing if not key.startswith("pooler.") and (origin is None or key in origin.names)
    )


def save_backbone(backbone: PreTrainedModel, folder: Path) -> None:
    """Write a model as a folder that ``AutoModel`` loads.

    An encoder out of an encoder-decoder is written under the names of the whole model, without the decoder:
    ``AutoModel.from_pretrained(folder).get_encoder()`` is the encoder. T5's family has encoders as models of
    their own, which ``AutoModelForTextEncoding`` loads.

    Args:
        backbone: The model, not quantised.
        folder: Where to write.
    """
    origin = origin_of(backbone)
    if origin is None:
        backbone.save_pretrained(folder)
        return
    weights = backbone.state_dict()
    whole = {key: weights[name].clone() for key, name in origin.names.items()}
    backbone.save_pretrained(folder, state_dict=whole)
    origin.config.architectures = [origin.model]
    origin.config.save_pretrained(folder)


def _weights(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and saved buffers by every name they have, without the scales of quantised ones."""
    saved = module.state_dict()
    named = (*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False))
    return {name: weight for name, weight in named if name in saved}
