"""Export of an encoder for transformers, with the adapter merged into the weights."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from peft import PeftModel, get_peft_model_state_dict, set_peft_model_state_dict
from transformers import PreTrainedModel

from sts_lightning.core.errors import ConfigError
from sts_lightning.models.compute.inference import is_out_of_memory
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.adapters import add_adapter
from sts_lightning.models.loading.folder import describe, only_ours
from sts_lightning.models.loading.quantization import dequantized
from sts_lightning.models.text.tokenizer_files import save_tokenizer


def write_merged(encoder: SentenceEncoder, folder: Path) -> dict[str, Any]:
    """Write the merged backbone of an encoder, and its tokenizer.

    The tokenizer has no template, which whoever pools the hidden states puts around a sentence.

    Args:
        encoder: Encoder; it must not be used afterwards, since its backbone is changed in place.
        folder: Output folder, empty.

    Raises:
        ConfigError: The adapter cannot be merged, or no library has the architecture.
    """
    save_backbone(merged(encoder), folder)
    save_tokenizer(encoder.tokenizer, folder)
    described = describe(encoder, "pooling is not a part of this format")
    described["base"] |= {"quantization": "none"}
    # Neither dense layers nor subtracted templates are in the hidden states of a transformer.
    described["encoding"] |= {"projection": "none", "denoise_evaluation": False}
    return described


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
    if only_ours(backbone):
        raise ConfigError(
            f"{type(backbone).__name__} is an architecture that transformers lacks, or has only beside a "
            "decoder, so no other library could load the export; use the run itself with sts_lightning.load, "
            "or --format adapter where it has an adapter."
        )
    backbone.save_pretrained(folder)
