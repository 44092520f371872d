"""Small decoders with random weights, loaded and quantised by the same code as large decoders."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Unpack

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import (
    AutoModel,
    LlamaConfig,
    MistralConfig,
    OPTConfig,
    PreTrainedConfig,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging

from sts_lightning.core.choices import Quantization
from sts_lightning.models.encoder import EncoderSettings, SentenceEncoder
from sts_lightning.models.loading.backbone import DtypeName


class _Shape(EncoderSettings, total=False):
    """Size and storage of a decoder, and settings of its encoder."""

    hidden_size: int
    layers: int
    heads: int
    weights_seed: int
    dtype: DtypeName
    quantization: Quantization
    device: str | None


def tiny_opt(dropout: float = 0.1, **shape: Unpack[_Shape]) -> SentenceEncoder:
    """Build an OPT.

    Args:
        dropout: Dropout rate of hidden states.
        **shape: Size, storage and settings, see `tiny_mistral`.
    """
    width = shape.get("hidden_size", 32)
    config = OPTConfig(**_sizes(shape), word_embed_proj_dim=width, ffn_dim=4 * width, dropout=dropout)
    return _load(config, "</s>", **shape)


def tiny_llama(**shape: Unpack[_Shape]) -> SentenceEncoder:
    """Build a LLaMA; its architecture has no dropout.

    Args:
        **shape: Size, storage and settings, see `tiny_mistral`.
    """
    return _load(LlamaConfig(**_sizes(shape)), "<s>", **shape)


def tiny_mistral(**shape: Unpack[_Shape]) -> SentenceEncoder:
    """Build a Mistral with half as many key heads as heads; its architecture has no dropout.

    Args:
        **shape: ``hidden_size`` D, a multiple of ``heads``; ``layers``; ``heads``; ``weights_seed``, which
            does not change the global random state; ``dtype`` and ``quantization`` as in `load_backbone`; and
            the settings of `SentenceEncoder`.
    """
    heads = shape.get("heads", 2)
    return _load(MistralConfig(**_sizes(shape), num_key_value_heads=max(1, heads // 2)), "<s>", **shape)


def _sizes(shape: _Shape) -> dict[str, Any]:
    hidden_size = shape.get("hidden_size", 32)
    return {
        "hidden_size": hidden_size,
        "intermediate_size": 2 * hidden_size,
        "num_hidden_layers": shape.get("layers", 2),
        "num_attention_heads": shape.get("heads", 2),
        "max_position_embeddings": 512,
    }


def _load(config: PreTrainedConfig, start: str, **shape: Any) -> SentenceEncoder:
    """Save model and tokenizer to a folder, and load them like any other model."""
    for key in ("hidden_size", "layers", "heads"):
        shape.pop(key, None)
    tokenizer = byte_tokenizer(start)
    config.vocab_size = len(tokenizer)
    config.bos_token_id = tokenizer.bos_token_id
    config.eos_token_id = tokenizer.eos_token_id
    config.pad_token_id = None
    logging.disable_progress_bar()
    with torch.random.fork_rng(devices=[]), tempfile.TemporaryDirectory() as folder:
        torch.default_generator.manual_seed(shape.pop("weights_seed", 0))
        AutoModel.from_config(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return SentenceEncoder.from_pretrained(folder, **shape)


def write_mistral(folder: Path, config: MistralConfig, device: str = "cpu", seed: int = 0) -> None:
    """Write a Mistral with random bfloat16 weights as a folder that ``model.name`` can name.

    Args:
        folder: Output folder, created if necessary.
        config: Shape of the model; ``MistralConfig()`` is that of Mistral-7B. The vocabulary must hold the
            259 tokens of the byte tokenizer.
        device: Device on which the weights are drawn: 7B take minutes on a CPU, and 14 GB of memory.
        seed: Random seed of the weights; the global random state does not change.
    """
    logging.disable_progress_bar()
    with torch.random.fork_rng([] if device == "cpu" else [device]), torch.device(device):
        torch.manual_seed(seed)
        model = AutoModel.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder, max_shard_size="2GB")
    byte_tokenizer("<s>").save_pretrained(folder)


def byte_tokenizer(start: str) -> PreTrainedTokenizerFast:
    """Build a byte tokenizer with a start token and, like LLaMA's, without a pad token."""
    special = ["<unk>", "<s>", "</s>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: index for index, piece in enumerate([*special, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{start} $A", special_tokens=[(start, vocabulary[start])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token=start, eos_token="</s>"
    )
