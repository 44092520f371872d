"""What decides the vectors of an encoder, as one hash."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import tokenizers
import torch
import transformers

import sts_lightning
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.strict_json import parse_json


def fingerprint(encoder: SentenceEncoder) -> str:
    """Return a hash that differs if the vectors of `SentenceEncoder.encode` can differ by more than rounding.

    It covers weights and their precision, the architecture, pooling and projection, tokenizer, template, edit
    and cut of a sentence, and the versions of this package and of the libraries that compute them.

    Args:
        encoder: The encoder, with its settings of evaluation.

    Returns:
        64 hexadecimal digits.
    """
    rows = encoder.tokenizer
    settings = {
        "versions": [sts_lightning.__version__, transformers.__version__, tokenizers.__version__],
        "architecture": encoder.plain_backbone.config.to_dict(),
        "pooling": [encoder.pooling, encoder.layer, encoder.projection, encoder.normalize],
        "attention": encoder.bidirectional_layers,
        "denoise": rows.denoise if encoder.denoise_evaluation else None,
        "text": [rows.template, encoder.evaluation_text],
        "tokenizer": _rules(rows.tokenizer.backend_tokenizer.to_str()),
    }
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
    for name, tensor in sorted(encoder.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def _rules(tokenizer: str) -> dict[str, Any]:
    """Return the rules of a tokenizer in JSON, without how it cut and padded when it was last called."""
    rules: dict[str, Any] = parse_json(tokenizer)
    return {key: value for key, value in rules.items() if key not in ("truncation", "padding")}
