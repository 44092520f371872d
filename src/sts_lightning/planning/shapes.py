"""Published shapes of the models that `conf` names, for plans on a machine that cannot read their files."""

from __future__ import annotations

from typing import Any

from transformers import AutoConfig, PreTrainedConfig

_SEVEN_B = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32000}
_BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
_ROBERTA = {
    "model_type": "roberta",
    "vocab_size": 50265,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
}

SHAPES: dict[str, dict[str, Any]] = {
    "mistralai/Mistral-7B-v0.1": {
        **_SEVEN_B,
        "model_type": "mistral",
        "intermediate_size": 14336,
        "num_key_value_heads": 8,
        "max_position_embeddings": 32768,
        "sliding_window": 4096,
    },
    "huggyllama/llama-7b": {
        **_SEVEN_B,
        "model_type": "llama",
        "intermediate_size": 11008,
        "max_position_embeddings": 2048,
    },
    "meta-llama/Llama-2-7b-hf": {
        **_SEVEN_B,
        "model_type": "llama",
        "intermediate_size": 11008,
        "max_position_embeddings": 4096,
    },
    "facebook/opt-6.7b": {
        **_SEVEN_B,
        "model_type": "opt",
        "ffn_dim": 16384,
        "vocab_size": 50272,
        "word_embed_proj_dim": 4096,
        "max_position_embeddings": 2048,
    },
    "google-bert/bert-base-uncased": {**_BASE, "model_type": "bert", "vocab_size": 30522},
    "google-bert/bert-large-uncased": {**_LARGE, "model_type": "bert", "vocab_size": 30522},
    "voidism/diffcse-bert-base-uncased-sts": {**_BASE, "model_type": "bert", "vocab_size": 30522},
    "princeton-nlp/unsup-simcse-bert-large-uncased": {**_LARGE, "model_type": "bert", "vocab_size": 30522},
    "FacebookAI/roberta-base": {**_BASE, **_ROBERTA},
    "FacebookAI/roberta-large": {**_LARGE, **_ROBERTA},
    "sentence-transformers/all-MiniLM-L6-v2": {
        "model_type": "bert",
        "hidden_size": 384,
        "num_hidden_layers": 6,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
        "vocab_size": 30522,
    },
}
"""Sizes in the ``config.json`` of each model, by hub id."""


def published_shape(name: str) -> PreTrainedConfig | None:
    """Return the configuration of a model of `SHAPES`, or None if it is not one of them.

    Args:
        name: Hub id, optionally followed by ``@commit``.
    """
    sizes = SHAPES.get(name.partition("@")[0])
    if sizes is None:
        return None
    config: PreTrainedConfig = AutoConfig.for_model(**sizes)
    return config
