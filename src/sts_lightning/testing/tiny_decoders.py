"""Small decoders with random weights, loaded and quantised by the same code as large decoders."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

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

from sts_lightning.core.choices import DtypeName, Quantization
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.encoding import EncodingConfig, takes_settings
from sts_lightning.models.loading.backbone import Loader, load_backbone


@dataclass(frozen=True)
class Shape:
    """Size and storage of a decoder.

    Attributes:
        hidden_size: D, a multiple of ``heads``.
        layers: Number of layers.
        heads: Number of attention heads.
        weights_seed: Seed of the weights, which does not change the global random state.
        dtype: See `load_backbone`, also for the settings below.
        quantization: Quantisation of the linear layers.
        device: Device that quantised weights are loaded to.
        adapter: Settings of a peft adapter.
    """

    hidden_size: int = 32
    layers: int = 2
    heads: int = 2
    weights_seed: int = 0
    dtype: DtypeName = "float32"
    quantization: Quantization = "none"
    device: str | None = None
    adapter: Any = None


@takes_settings(Shape, EncodingConfig)
def tiny_opt(dropout: float = 0.1, loader: Loader = load_backbone, **settings: Any) -> SentenceEncoder:
    """Build an OPT.

    Args:
        dropout: Dropout rate of hidden states.
        loader: Function that returns backbone and tokenizer.
        **settings: Fields of `Shape` and of `EncodingConfig`.
    """
    shape, encoding = _apart(settings)
    width = shape.hidden_size
    config = OPTConfig(**_sizes(shape), word_embed_proj_dim=width, ffn_dim=4 * width, dropout=dropout)
    return _load(config, "</s>", shape, encoding, loader)


@takes_settings(Shape, EncodingConfig)
def tiny_llama(loader: Loader = load_backbone, **settings: Any) -> SentenceEncoder:
    """Build a LLaMA; its architecture has no dropout.

    Args:
        loader: Function that returns backbone and tokenizer.
        **settings: Fields of `Shape` and of `EncodingConfig`.
    """
    shape, encoding = _apart(settings)
    return _load(LlamaConfig(**_sizes(shape)), "<s>", shape, encoding, loader)


@takes_settings(Shape, EncodingConfig)
def tiny_mistral(loader: Loader = load_backbone, **settings: Any) -> SentenceEncoder:
    """Build a Mistral with half as many key heads as heads; its architecture has no dropout.

    Args:
        loader: Function that returns backbone and tokenizer.
        **settings: Fields of `Shape` and of `EncodingConfig`.
    """
    shape, encoding = _apart(settings)
    config = MistralConfig(**_sizes(shape), num_key_value_heads=max(1, shape.heads // 2))
    return _load(config, "<s>", shape, encoding, loader)


def _apart(settings: Mapping[str, Any]) -> tuple[Shape, dict[str, Any]]:
    """Return the shape in settings, and those of the encoder."""
    names = {field.name for field in fields(Shape)}
    shape = Shape(**{name: value for name, value in settings.items() if name in names})
    return shape, {name: value for name, value in settings.items() if name not in names}


def _sizes(shape: Shape) -> dict[str, Any]:
    return {
        "hidden_size": shape.hidden_size,
        "intermediate_size": 2 * shape.hidden_size,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "max_position_embeddings": 512,
    }


def _load(
    config: PreTrainedConfig, start: str, shape: Shape, encoding: Mapping[str, Any], loader: Loader
) -> SentenceEncoder:
    """Save model and tokenizer to a folder, and load them like any other model."""
    tokenizer = byte_tokenizer(start)
    config.vocab_size = len(tokenizer)
    config.bos_token_id = tokenizer.bos_token_id
    config.eos_token_id = tokenizer.eos_token_id
    config.pad_token_id = None
    logging.disable_progress_bar()
    with torch.random.fork_rng(devices=[]), tempfile.TemporaryDirectory() as folder:
        torch.default_generator.manual_seed(shape.weights_seed)
        AutoModel.from_config(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        encoder = SentenceEncoder.from_pretrained(
            folder,
            dtype=shape.dtype,
            quantization=shape.quantization,
            device=shape.device,
            adapter=shape.adapter,
            loader=loader,
            **encoding,
        )
    if encoder.base is not None:
        encoder.base = replace(encoder.base, name=None)  # the folder is gone
    return encoder


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
