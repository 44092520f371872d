"""Tokenizer of an export."""

from __future__ import annotations

from pathlib import Path

from sts_lightning.models.encoder import SentenceEncoder

UNLIMITED = int(1e30)
"""``model_max_length`` of a tokenizer that states no limit."""


def save_tokenizer(encoder: SentenceEncoder, folder: Path) -> None:
    """Write the tokenizer of an encoder; others may read rows as long as the model has positions for.

    The limit of the base model's tokenizer, which the run ignores, would cut the end of a template.

    Args:
        encoder: Encoder.
        folder: Output folder.
    """
    tokenizer = encoder.tokenizer
    around = tokenizer.longest_row - tokenizer.max_length
    tokenizer.tokenizer.model_max_length = UNLIMITED if tokenizer.fits is None else tokenizer.fits + around
    tokenizer.tokenizer.save_pretrained(folder)
