"""Models of the library's families with random weights, a few thousand of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModel, PreTrainedModel, PreTrainedTokenizerBase

from sts_lightning.testing.tiny_bert import character_tokenizer

SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "embedding_size": 32,
    "word_embed_proj_dim": 32,
    "intermediate_size": 64,
    "moe_intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "state_size": 8,
    "num_local_experts": 2,
    "num_experts": 2,
    "num_experts_per_tok": 1,
    "ffn_dim": 64,
    "d_model": 32,
    "d_kv": 16,
    "d_ff": 64,
    "d_inner": 64,
    "dim": 32,
    "hidden_dim": 64,
    "n_embd": 32,
    "n_layer": 2,
    "n_layers": 2,
    "n_head": 2,
    "n_heads": 2,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "dropout": 0.0,
    "dropout_rate": 0.0,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "encoder_layerdrop": 0.0,
}


NEEDED: dict[str, dict[str, Any]] = {
    "deberta-v2": {
        "position_biased_input": False,
        "relative_attention": True,
        "pos_att_type": ["p2c", "c2p"],
    },
    "modernbert": {"local_attention": 8, "global_attn_every_n_layers": 2},
    "gemma2": {"query_pre_attn_scalar": 16, "sliding_window": 8},
    "gemma3_text": {"query_pre_attn_scalar": 16, "sliding_window": 8},
    "gpt_oss": {"sliding_window": 8, "head_dim": 16},
    "mistral": {"sliding_window": 8},
    "qwen2": {"vocab_size": 200},  # the class of its tokenizer adds a token to any vocabulary
}
"""Settings by model type that make a small model exercise what a large one does."""

# fmt: off
KNOWN = frozenset((
    "albert", "bart", "bert", "bloom", "deberta", "deberta-v2", "distilbert", "electra", "eurobert",
    "falcon", "falcon_mamba", "gemma", "gemma2", "gemma3_text", "glm", "gpt2", "gpt_neox",
    "gpt_oss", "gte", "jina_embeddings_v3", "llama", "m2m_100", "mamba", "mbart", "mistral",
    "mixtral", "modernbert", "mpnet", "mt5", "nomic_bert", "olmo2", "opt", "phi3",
    "qwen2", "qwen3", "qwen3_moe", "roberta", "smollm3", "t5", "umt5", "xlm-roberta", "xlnet",
))
# fmt: on
"""Model types whose padded vectors are those of single sentences."""

COMMON = ("bert", "gpt2", "mistral", "modernbert", "qwen3", "roberta")
"""Families that every change is tested with."""

FURTHER = (
    "bart",
    "bloom",
    "deberta-v2",
    "falcon",
    "falcon_mamba",
    "gemma2",
    "gemma3_text",
    "gpt_oss",
    "mamba",
    "mpnet",
    "opt",
    "qwen3_moe",
    "t5",
    "xlnet",
)
"""Families that are tested nightly: each has positions, masks, layers or embeddings like no other."""


def family(model_type: str) -> PreTrainedModel:
    """A tiny model of a family with the settings in `NEEDED`; of an encoder-decoder, the encoder."""
    model = tiny(model_type, **NEEDED.get(model_type, {}))
    encoder: PreTrainedModel = model.get_encoder() if model.config.is_encoder_decoder else model
    return encoder


def tiny(model_type: str, **settings: Any) -> PreTrainedModel:
    """A model without head whose vocabulary is that of `character_tokenizer`."""
    base = AutoConfig.for_model(model_type)
    fixed = {"falcon": "head_dim", "xlnet": "max_position_embeddings"}.get(model_type)
    sizes = {key: size for key, size in SIZES.items() if hasattr(base, key) and key != fixed}
    config = AutoConfig.for_model(
        model_type,
        **{
            **sizes,
            "vocab_size": len(character_tokenizer()),
            "pad_token_id": 0,
            "bos_token_id": 2,
            "eos_token_id": 3,
            **settings,
        },
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model: PreTrainedModel = AutoModel.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim >= 2:
                parameter.mul_(3)  # initial weights are so small that attention would hardly matter
    return model


def write(model: PreTrainedModel, folder: Path, tokenizer: PreTrainedTokenizerBase | None = None) -> str:
    """Save a model with its tokenizer; returns the folder's name."""
    model.save_pretrained(folder)
    (tokenizer or character_tokenizer()).save_pretrained(folder)
    return str(folder)
