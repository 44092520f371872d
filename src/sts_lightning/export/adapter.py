"""Export of an adapter as a folder that peft reads."""

from __future__ import annotations

from pathlib import Path

from peft import PeftModel

from sts_lightning.errors import CheckpointError
from sts_lightning.export.tokenizer import save_tokenizer
from sts_lightning.models.encoder import SentenceEncoder


def write_adapter(encoder: SentenceEncoder, folder: Path, name: str) -> None:
    """Write the adapter of an encoder, and its tokenizer.

    Args:
        encoder: Encoder with an adapter; must not be used afterwards.
        folder: Output folder, empty.
        name: Hub id or local folder of the base model, optionally with ``@commit``.

    Raises:
        CheckpointError: The encoder has no adapter.
    """
    if not isinstance(encoder.backbone, PeftModel):
        raise CheckpointError("the run has no adapter; use --format merged, which writes all weights.")
    for config in encoder.backbone.peft_config.values():
        config.base_model_name_or_path, _, revision = name.partition("@")
        config.revision = revision or None
        config.inference_mode = True
    encoder.backbone.save_pretrained(str(folder), save_embedding_layers=False)
    save_tokenizer(encoder, folder)
