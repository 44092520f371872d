"""Real sentences and randomly initialised Mistrals for the decoder benchmarks."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from hydra import compose
from peft import LoraConfig
from transformers import MistralConfig, MistralModel
from transformers.models.mistral.modeling_mistral import MistralDecoderLayer

from sts_lightning.config.compose import composing
from sts_lightning.data import own_rows
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_decoders import byte_tokenizer
from sts_lightning.testing.toy import toy

with composing():
    TEMPLATES: dict[str, str] = {
        name: compose("train", [f"prompt={name}"]).prompt.template for name in ("eol", "ke")
    }

SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {
        "hidden_size": 96,
        "intermediate_size": 336,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    },
    # The language-model head takes the same fraction of the arithmetic as in the real model.
    "small": {
        "hidden_size": 256,
        "intermediate_size": 896,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
    },
    "mistral7b": {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
    },
}
# The width of SmolLM2-135M.
SHAPES["smollm2_six_layers"] = {
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
}
SHAPES["mistral7b_two_layers"] = SHAPES["mistral7b"] | {"num_hidden_layers": 2}


def lora(dropout: float = 0.05) -> LoraConfig:
    """Return the papers' adapter configuration."""
    return LoraConfig(
        task_type="FEATURE_EXTRACTION",
        r=64,
        lora_alpha=16,
        lora_dropout=dropout,
        target_modules="all-linear",
    )


def make_mistral(shape: str, dtype: torch.dtype, device: str, nf4: bool) -> MistralModel:
    """Build a Mistral with random weights, its linear layers in NF4 if `nf4`.

    The weights are drawn on the device, and a layer is quantised before the next one is built: neither the
    host nor a card of 24 GB would hold 7B weights otherwise.
    """
    sizes = SHAPES[shape]
    vocabulary = 32000 if shape == "mistral7b" else len(byte_tokenizer("<s>"))
    config = MistralConfig(
        vocab_size=vocabulary,
        num_key_value_heads=sizes["num_attention_heads"] // 4,
        use_cache=False,
        **{**sizes, "num_hidden_layers": 0},
    )
    torch.manual_seed(0)
    default = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model = MistralModel(config)
            config.num_hidden_layers = model.config.num_hidden_layers = sizes["num_hidden_layers"]
            for index in range(config.num_hidden_layers):
                layer = MistralDecoderLayer(config, index).apply(model._init_weights)
                if nf4:
                    quantise(layer, dtype, device)
                model.layers.append(layer)
    finally:
        torch.set_default_dtype(default)
    return model


def quantise(model: torch.nn.Module, dtype: torch.dtype, device: str) -> None:
    """Replace linear layers by NF4 ones with nested scales, as loading from files does."""
    import bitsandbytes

    nn: Any = bitsandbytes.nn
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, torch.nn.Linear) and not isinstance(child, nn.Linear4bit):
                linear = nn.Linear4bit(
                    child.in_features,
                    child.out_features,
                    bias=False,
                    compute_dtype=dtype,
                    compress_statistics=True,
                    quant_type="nf4",
                    device="meta",
                )
                linear.weight = nn.Params4bit(
                    child.weight.data, requires_grad=False, compress_statistics=True, quant_type="nf4"
                )
                setattr(parent, name, linear.to(device))
                if hasattr(linear, "support_avx512bf16_for_cpu"):
                    linear.support_avx512bf16_for_cpu = False  # as in load_backbone


def make_encoder(
    shape: str, dtype: torch.dtype, device: str, nf4: bool, template: str = "eol", dropout: float = 0.05
) -> SentenceEncoder:
    """Wrap a random Mistral in this project's encoder, with the papers' adapter."""
    model = make_mistral(shape, dtype, device, nf4)
    encoder = SentenceEncoder(
        model,
        byte_tokenizer("<s>"),
        pooling="last_token",
        max_length=128,
        template=TEMPLATES[template],
        adapter=lora(dropout),
    )
    return encoder.to(device)


def triplets(count: int, generated: bool = False) -> list[list[str]]:
    """Return anchors, positives and hard negatives of real NLI triplets, or of the toy language."""
    data = (
        toy(kind="triplets", train_size=count)
        if generated
        else own_rows.triplets(os.environ["STS_DATA_ROOT"])
    )
    table = data.read().train
    table = table[np.random.default_rng(1).permutation(len(table))[:count]]
    return [list(table[name]) for name in ("sentence1", "sentence2", "sentence3")]
