"""Probes of a model: vectors that depend on the batch, embeddings that are looked up separately."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from sts_lightning.errors import ConfigError
from sts_lightning.models.tokenize import SentenceTokenizer

TOLERANCE = 1e-3
"""Largest difference that float32 rounding explains, as a fraction of the longer vector's norm."""

COARSE_TOLERANCE = 0.05
"""The same for 16-bit arithmetic and quantised weights."""

TEXTS = ["A dog runs.", "Someone plays an old guitar in the park while two men are sitting on a bench."]
"""Texts of the probes: a short sentence and a longer one."""


@torch.no_grad()
def probe(
    tokenizer: SentenceTokenizer,
    embed_chunk: Callable[..., Tensor],
    adapted: Any,
    backbone: PreTrainedModel,
) -> bool:
    """Test an encoder in evaluation mode.

    A vector depends on its batch if padding is not masked in every layer (FNet, ConvBERT, Nystromformer), or
    if it is random (YOSO).

    Args:
        tokenizer: Tokenizer of the encoder.
        embed_chunk: Function that embeds the token ids of a chunk or, as a second argument, other inputs.
        adapted: Backbone of the encoder, with the adapter if there is one.
        backbone: Backbone without the adapter.

    Returns:
        Whether the model gives the same vectors for token embeddings as for token ids. Some models scale the
        embeddings that they look up themselves, but not those passed to them.

    Raises:
        ConfigError: The vector of a short sentence changes beside a longer one, or the model cannot embed two
            sentences at once.
    """
    name = type(backbone).__name__
    exact = backbone.dtype == torch.float32 and not getattr(backbone, "is_quantized", False)

    def agree(one: Tensor, other: Tensor) -> bool:  # NaN never does
        size = torch.maximum(one.norm(), other.norm())
        return bool((one - other).norm() <= (TOLERANCE if exact else COARSE_TOLERANCE) * size)

    (short,), (chunk,) = (tokenizer.rows(texts, 10**9).chunks for texts in (TEXTS[:1], TEXTS))
    short, chunk = ({key: ids.to(backbone.device) for key, ids in rows.items()} for rows in (short, chunk))
    try:
        alone, beside = embed_chunk(short)[0], embed_chunk(chunk)
    except Exception as error:  # whatever a model of an unknown kind raises
        raise ConfigError(
            f"{name} cannot embed two sentences of different length in one batch ({type(error).__name__}: "
            f"{str(error).partition(chr(10))[0]}); choose another model."
        ) from error
    if not agree(alone, beside[chunk["attention_mask"].sum(dim=1).argmin()]):
        raise ConfigError(
            f"{name} does not ignore padding: the vector of a sentence changes beside a longer one. "
            "Choose another model."
        )
    if "inputs_embeds" not in inspect.signature(backbone.forward).parameters:
        return False
    embedded = adapted.get_input_embeddings()(chunk["input_ids"])
    return agree(beside, embed_chunk(chunk, {"inputs_embeds": embedded}))
