"""Encoders of encoder-decoder models: class to load, part to keep, format to save."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from transformers import AutoModel, AutoModelForTextEncoding, PreTrainedConfig, PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_TEXT_ENCODING_MAPPING

from sts_lightning.errors import ConfigError
from sts_lightning.models.jina_bert import JinaBertModel, is_jina_bert

SHARED_STATE = (
    "hf_quantizer",
    "is_quantized",
    "quantization_method",
    "is_loaded_in_4bit",
    "is_loaded_in_8bit",
)
"""Attributes that the library sets on a loaded model, and that its encoder needs too."""


@dataclass(frozen=True)
class Origin:
    """Model that an encoder was taken from.

    Attributes:
        model: Name of its class, such as ``BartModel``.
        config: Configuration of the model, which may contain that of the encoder.
        names: Name of each weight in the encoder, by its name in the model. A tied weight occurs more than
            once.
    """

    model: str
    config: PreTrainedConfig
    names: dict[str, str]


def loader(config: PreTrainedConfig) -> Any:
    """Choose the loader of the encoder: T5's family has classes without a decoder, Jina's BERT one of ours.

    Args:
        config: Configuration of the model. If such a class is used, ``is_encoder_decoder`` is set to False.

    Returns:
        A class with ``from_pretrained``.
    """
    if is_jina_bert(config):
        return JinaBertModel
    known = type(config) in MODEL_FOR_TEXT_ENCODING_MAPPING
    model: Any = MODEL_FOR_TEXT_ENCODING_MAPPING[type(config)] if known else None
    if not known or not model.__name__.endswith("EncoderModel") or not hasattr(config, "num_hidden_layers"):
        return AutoModel  # a configuration of two halves (T5Gemma) does not describe the encoder as its own
    config.is_encoder_decoder = False  # some of these classes do so themselves, others require it
    return AutoModelForTextEncoding


def take_encoder(model: PreTrainedModel, name: str) -> PreTrainedModel:
    """Take the encoder of an encoder-decoder; any other model is returned as it is.

    Args:
        model: Model as loaded.
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
    """Return the encoder-decoder that an encoder was taken from, or None."""
    origin = getattr(backbone, "origin", None)
    return origin if isinstance(origin, Origin) else None


def used_keys(backbone: PreTrainedModel, missing: set[str]) -> list[str]:
    """Return the missing weights that the backbone uses: neither a decoder's nor a pooler's."""
    origin = origin_of(backbone)
    return sorted(
        key for key in missing if not key.startswith("pooler.") and (origin is None or key in origin.names)
    )


def save_backbone(backbone: PreTrainedModel, folder: Path) -> None:
    """Save a model as a folder that ``AutoModel`` loads.

    The encoder of an encoder-decoder is saved under the names of the whole model, without the decoder:
    ``AutoModel.from_pretrained(folder).get_encoder()`` is the encoder. T5's family has encoders as models of
    their own, which ``AutoModelForTextEncoding`` loads.

    Args:
        backbone: Model, not quantised.
        folder: Output folder.

    Raises:
        ConfigError: The library has no such architecture.
    """
    own = backbone.config.model_type not in CONFIG_MAPPING and not hasattr(backbone.config, "auto_map")
    if isinstance(backbone, JinaBertModel) or own:
        raise ConfigError(
            f"{type(backbone).__name__} is an architecture that transformers lacks, so no other library "
            "could load the export; use the run itself with sts_lightning.load, or --format adapter where "
            "it has an adapter."
        )
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
    """Return parameters and saved buffers by each of their names, without the scales of quantised ones."""
    saved = module.state_dict()
    named = (*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False))
    return {name: weight for name, weight in named if name in saved}
