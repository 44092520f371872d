"""Export of an encoder for transformers, with the adapter merged into the weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from peft import PeftModel
from transformers import PreTrainedModel

from sts_lightning.core.errors import ConfigError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.adapters import merge
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
    return merge(backbone) if isinstance(backbone, PeftModel) else dequantized(backbone)


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
