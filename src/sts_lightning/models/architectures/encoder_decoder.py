"""Encoders of encoder-decoder models: class to load, and part to keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoModel, AutoModelForTextEncoding, PreTrainedConfig, PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_TEXT_ENCODING_MAPPING

from sts_lightning.core.errors import ConfigError
from sts_lightning.models.architectures.jina import JinaBertModel, is_jina_bert

SHARED_STATE = (
    "hf_quantizer",
    "is_quantized",
    "quantization_method",
    "is_loaded_in_4bit",
    "is_loaded_in_8bit",
)
"""Attributes that the library sets on a loaded model, and that its encoder needs too."""


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
    for attribute in SHARED_STATE:
        if hasattr(model, attribute):
            setattr(encoder, attribute, getattr(model, attribute))
    return encoder


def used_keys(model: PreTrainedModel, missing: set[str]) -> list[str]:
    """Return the missing weights of a model that its encoder uses: neither a decoder's nor a pooler's."""
    unused = ("pooler.", "decoder.") if getattr(model.config, "is_encoder_decoder", False) else ("pooler.",)
    return sorted(key for key in missing if not key.startswith(unused))


def save_backbone(backbone: PreTrainedModel, folder: Path) -> None:
    """Save a model as a folder that ``AutoModel`` loads; T5's encoder, one for ``AutoModelForTextEncoding``.

    Raises:
        ConfigError: The library has no such architecture, or only as half of an encoder-decoder.
    """
    own = backbone.config.model_type not in CONFIG_MAPPING and not hasattr(backbone.config, "auto_map")
    half = getattr(backbone.config, "is_encoder_decoder", False)
    if isinstance(backbone, JinaBertModel) or own or half:
        raise ConfigError(
            f"{type(backbone).__name__} is an architecture that transformers lacks, or has only beside a "
            "decoder, so no other library could load the export; use the run itself with sts_lightning.load, "
            "or --format adapter where it has an adapter."
        )
    backbone.save_pretrained(folder)
