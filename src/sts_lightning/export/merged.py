"""Export of an encoder for transformers, with the adapter merged into the weights."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from peft import PeftModel, get_peft_model_state_dict, set_peft_model_state_dict
from transformers import PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from sts_lightning.core.errors import ConfigError
from sts_lightning.models.architectures.jina import JinaBertModel
from sts_lightning.models.compute.inference import is_out_of_memory
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.adapters import add_adapter
from sts_lightning.models.loading.quantization import dequantized


def write_merged(encoder: SentenceEncoder, folder: Path, name: str) -> None:
    """Write the merged backbone of an encoder, and its tokenizer.

    The tokenizer has no template, which whoever pools the hidden states puts around a sentence.

    Args:
        encoder: Encoder; it must not be used afterwards, since its backbone is changed in place.
        folder: Output folder, empty.
        name: Name of the base model, which this format does not store.

    Raises:
        ConfigError: The adapter cannot be merged.
    """
    save_backbone(merged(encoder), folder)
    save_tokenizer(encoder, folder)


UNLIMITED = int(1e30)
"""``model_max_length`` of transformers' tokenizers without a limit."""


def save_tokenizer(encoder: SentenceEncoder, folder: Path) -> None:
    """Write the tokenizer of an encoder, with the number of the model's positions as its limit.

    The run ignores the limit of the base model's tokenizer, which would truncate the end of a template.
    """
    tokenizer = encoder.tokenizer
    limit = UNLIMITED if tokenizer.fits is None else tokenizer.fits + tokenizer.added
    tokenizer.tokenizer.model_max_length = limit
    tokenizer.tokenizer.save_pretrained(folder)


def merged(encoder: SentenceEncoder) -> PreTrainedModel:
    """Return the dequantised backbone of an encoder, which is changed in place, with its adapter merged.

    Raises:
        ConfigError: The adapter cannot be merged, as a prefix.
    """
    backbone = encoder.backbone
    if not isinstance(backbone, PeftModel):
        return dequantized(backbone)
    config: Any = copy.deepcopy(backbone.peft_config["default"])
    tuner: Any = backbone.base_model
    if not hasattr(tuner, "merge_and_unload"):
        type_ = str(config.peft_type).rpartition(".")[2]
        raise ConfigError(f"an adapter of type {type_} cannot be merged; use --format adapter.")
    # Merged into quantised weights, the adapter would be rounded to their grid: they are dequantised first.
    trained = get_peft_model_state_dict(backbone, save_embedding_layers=False)
    with _merge_errors():
        bare = tuner.unload()
    with_adapter = add_adapter(dequantized(bare), config)
    set_peft_model_state_dict(with_adapter, trained)
    tuner = with_adapter.base_model
    with _merge_errors():
        result: PreTrainedModel = tuner.merge_and_unload()
    return result


@contextmanager
def _merge_errors() -> Iterator[None]:
    """Report why peft cannot merge an adapter, such as lora_bias on layers without bias."""
    try:
        yield
    except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        if is_out_of_memory(error):
            raise
        raise ConfigError(f"the adapter cannot be merged ({error}); use --format adapter.") from error


def save_backbone(backbone: PreTrainedModel, folder: Path) -> None:
    """Save a model as a folder that ``AutoModel`` loads; T5's encoder, one for ``AutoModelForTextEncoding``.

    Raises:
        ConfigError: The library has no such architecture, or only as half of an encoder-decoder.
    """
    only_ours = backbone.config.model_type not in CONFIG_MAPPING and not hasattr(backbone.config, "auto_map")
    half = getattr(backbone.config, "is_encoder_decoder", False)
    if isinstance(backbone, JinaBertModel) or only_ours or half:
        raise ConfigError(
            f"{type(backbone).__name__} is an architecture that transformers lacks, or has only beside a "
            "decoder, so no other library could load the export; use the run itself with sts_lightning.load, "
            "or --format adapter where it has an adapter."
        )
    backbone.save_pretrained(folder)
