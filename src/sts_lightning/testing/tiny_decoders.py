"""Small decoders with random weights, loaded and quantised by the same code as large decoders."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
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
        dtype: See `SentenceEncoder.from_pretrained`, also for the settings below.
        quantization: Quantisation of the linear layers.
        device: Device that the weights are loaded to.
        adapter: Settings of a peft adapter.
    """

    hidden_size: int = 32
    layers: int = 2
    heads: int = 2
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
    width = settings.get("hidden_size", Shape.hidden_size)
    own = {"word_embed_proj_dim": width, "ffn_dim": 4 * width, "dropout": dropout}
    return _build(OPTConfig, "</s>", loader, settings, **own)


@takes_settings(Shape, EncodingConfig)
def tiny_llama(loader: Loader = load_backbone, **settings: Any) -> SentenceEncoder:
    """Build a LLaMA; its architecture has no dropout.

    Args:
        loader: Function that returns backbone and tokenizer.
        **settings: Fields of `Shape` and of `EncodingConfig`.
    """
    return _build(LlamaConfig, "<s>", loader, settings)


@takes_settings(Shape, EncodingConfig)
def tiny_mistral(loader: Loader = load_backbone, **settings: Any) -> SentenceEncoder:
    """Build a Mistral with half as many key heads as heads; its architecture has no dropout.

    Args:
        loader: Function that returns backbone and tokenizer.
        **settings: Fields of `Shape` and of `EncodingConfig`.
    """
    key_heads = max(1, settings.get("heads", Shape.heads) // 2)
    return _build(MistralConfig, "<s>", loader, settings, num_key_value_heads=key_heads)


def _build(
    family: Callable[..., PreTrainedConfig], start: str, loader: Loader, settings: dict[str, Any], **own: Any
) -> SentenceEncoder:
    """Save model and tokenizer to a folder, and load them like any other model.

    Args:
        family: Class of the model's configuration.
        start: Start token.
        loader: See `tiny_opt`.
        settings: Fields of `Shape` and of `EncodingConfig`.
        **own: Settings of this family alone.
    """
    tokenizer = byte_tokenizer(start)
    width = settings.pop("hidden_size", Shape.hidden_size)
    config = family(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=settings.pop("layers", Shape.layers),
        num_attention_heads=settings.pop("heads", Shape.heads),
        max_position_embeddings=512,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=None,
        **own,
    )
    logging.disable_progress_bar()
    with torch.random.fork_rng(devices=[]), tempfile.TemporaryDirectory() as folder:
        torch.default_generator.manual_seed(0)
        AutoModel.from_config(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        encoder = SentenceEncoder.from_pretrained(folder, loader=loader, **settings)
    if encoder.base is not None:
        encoder.base = replace(encoder.base, name=None)  # the folder is gone
    return encoder


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
