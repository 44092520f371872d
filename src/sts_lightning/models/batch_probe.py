"""Probes of unknown models: vectors that depend on the batch, embeddings that are looked up separately."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from sts_lightning.errors import ConfigError
from sts_lightning.models.tokenize import SentenceTokenizer

# fmt: off
PROVEN = frozenset((
    "albert", "bart", "bert", "bloom", "deberta", "deberta-v2", "distilbert", "electra", "eurobert",
    "falcon", "falcon_mamba", "gemma", "gemma2", "gemma3_text", "glm", "gpt2", "gpt_neox",
    "gpt_oss", "gte", "jina_embeddings_v3", "llama", "m2m_100", "mamba", "mbart", "mistral",
    "mixtral", "modernbert", "mpnet", "mt5", "nomic_bert", "olmo2", "opt", "phi3",
    "qwen2", "qwen3", "qwen3_moe", "roberta", "smollm3", "t5", "umt5", "xlm-roberta", "xlnet",
))
# fmt: on
"""Model types whose padded vectors have been compared with unpadded ones; they are loaded without a probe."""

TOLERANCE = 1e-3
"""Largest difference that float32 rounding explains, as a fraction of the longer vector's norm."""

COARSE_TOLERANCE = 0.05
"""The same for 16-bit arithmetic and quantised weights."""


def is_proven(backbone: PreTrainedModel) -> bool:
    """Return whether the model type is in `PROVEN` and its code comes from the library."""
    own = type(backbone).__module__.startswith("transformers.models.")
    return own and backbone.config.model_type in PROVEN


TEXTS = ["A dog runs.", "Someone plays an old guitar in the park while two men are sitting on a bench."]
"""Texts of the probes: a short sentence and a longer one."""


@torch.no_grad()
def check_independence(embed: Callable[[list[str]], Tensor], backbone: PreTrainedModel) -> None:
    """Reject a model whose vector of a short sentence changes if a longer one is in the batch.

    This happens if padding is not masked in every layer (FNet, ConvBERT, Nystromformer), or if the vector is
    random (YOSO).

    Args:
        embed: Function that embeds sentences in one padded chunk, (N, D), in evaluation mode.
        backbone: Backbone of the encoder, for its name and precision.

    Raises:
        ConfigError: The vectors differ, or the model cannot embed two sentences at once.
    """
    name = type(backbone).__name__
    try:
        alone, beside = embed(TEXTS[:1])[0], embed(TEXTS)[0]
    except Exception as error:  # whatever a model of an unknown kind raises
        raise ConfigError(
            f"{name} cannot embed two sentences of different length in one batch ({type(error).__name__}: "
            f"{str(error).partition(chr(10))[0]}); choose another model."
        ) from error
    if not agree(alone, beside, backbone):
        raise ConfigError(
            f"{name} does not ignore padding: the vector of a sentence changes beside a longer one. "
            "Choose another model."
        )


def agree(one: Tensor, other: Tensor, backbone: PreTrainedModel) -> bool:
    """Return whether two tensors are equal up to rounding in the model's precision; NaN never is."""
    exact = backbone.dtype == torch.float32 and not getattr(backbone, "is_quantized", False)
    size = torch.maximum(one.norm(), other.norm())
    return bool((one - other).norm() <= (TOLERANCE if exact else COARSE_TOLERANCE) * size)


@torch.no_grad()
def probe(
    tokenizer: SentenceTokenizer,
    embed_chunk: Callable[..., Tensor],
    adapted: Any,
    backbone: PreTrainedModel,
) -> bool:
    """Test an encoder in evaluation mode whose model type is not in `PROVEN`.

    Args:
        tokenizer: Tokenizer of the encoder.
        embed_chunk: Function that embeds the token ids of a chunk or, as a second argument, other inputs.
        adapted: Backbone of the encoder, with the adapter if there is one.
        backbone: Backbone without the adapter.

    Returns:
        Whether the model gives the same vectors for token embeddings as for token ids. Some models scale the
        embeddings that they look up themselves, but not those passed to them.

    Raises:
        ConfigError: See `check_independence`.
    """

    def chunk_of(sentences: list[str]) -> tuple[dict[str, Any], Tensor]:
        batch = tokenizer.rows(sentences, 10**9)
        (chunk,) = batch.chunks
        return {name: ids.to(backbone.device) for name, ids in chunk.items()}, batch.restore

    def embed(sentences: list[str]) -> Tensor:
        chunk, restore = chunk_of(sentences)
        vectors = embed_chunk(chunk)
        return vectors[restore.to(vectors.device)]

    check_independence(embed, backbone)
    if "inputs_embeds" not in inspect.signature(backbone.forward).parameters:
        return False
    chunk, _ = chunk_of(TEXTS)
    embedded = adapted.get_input_embeddings()(chunk["input_ids"])
    given = embed_chunk(chunk, {"inputs_embeds": embedded})
    return agree(embed_chunk(chunk), given, backbone)
