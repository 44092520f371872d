"""Encoders without weights: the composed model's own classes, on the meta device."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

import torch
import yaml
from omegaconf import DictConfig
from tokenizers import Tokenizer, processors
from transformers import (
    AutoConfig,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)
from transformers.quantizers.auto import AutoHfQuantizer

from sts_lightning.core.errors import ConfigError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.encoding import Base
from sts_lightning.models.loading.backbone import (
    Loaded,
    class_of,
    configure,
    dtype_of,
    is_causal,
    prepare,
    restrain_library,
    set_attention,
    take_encoder,
    text_config,
)
from sts_lightning.models.loading.hub import ModelFiles, find, find_adapter
from sts_lightning.models.loading.own_file import base_of, read_own
from sts_lightning.models.loading.quantization import quantization_config
from sts_lightning.models.loading.run import build_encoder
from sts_lightning.planning.fake import explaining_untraceable


@dataclass
class Skeleton:
    """An encoder whose weights have shapes but no values.

    Attributes:
        encoder: The encoder; weights that the model's class makes itself may be real.
        depth: Number of layers of the full model; None if its class builds itself.
        notes: What was taken from elsewhere than the model's own files.
    """

    encoder: SentenceEncoder
    depth: int | None
    notes: list[str]


def build_skeleton(model: DictConfig, prompt: DictConfig, layers: int | None = None) -> Skeleton:
    """Build the encoder of a configuration without its weights; only its config.json and tokenizer are read.

    Args:
        model: Configuration group ``model``.
        prompt: Configuration group ``prompt``.
        layers: Number of layers to build instead of all.

    Raises:
        ConfigError: The shape of the model is not known here, or a setting is out of range.
    """
    notes: list[str] = []
    depth: int | None = None

    def load(base: Base, trust_remote_code: bool, device: str | None) -> Loaded:
        name = str(base.name)
        while find_adapter(name) is not None:  # merged into its base, it changes no shape
            files = ModelFiles(name)
            name = str(base_of(files, read_own(files)).name)
        settings = _settings(name, trust_remote_code, notes)
        configure(settings, dict(base.config), name, trust_remote_code)
        nonlocal depth
        shape = text_config(settings)
        depth = getattr(shape, "num_hidden_layers", None)
        if layers is not None and depth is not None:
            if getattr(shape, "layer_types", None) is not None:
                shape.layer_types = list(shape.layer_types)[:layers]
            shape.num_hidden_layers = layers
        backbone = _build(replace(base, name=name), settings, trust_remote_code)
        set_attention(backbone, base.config, name)
        return backbone, _tokenizer(name, trust_remote_code, is_causal(backbone), notes)

    with explaining_untraceable(), _quiet():
        encoder = build_encoder(model, prompt, "cpu", load)
    return Skeleton(encoder, depth, notes)


def _settings(name: str, trust_remote_code: bool, notes: list[str]) -> PreTrainedConfig:
    """Read a model's config.json, from a folder, the hub or its cache; else take the published shape."""
    try:
        settings: PreTrainedConfig = _read(AutoConfig, name, trust_remote_code)
        return settings
    except (OSError, ValueError) as error:
        published = published_shape(name)
        if published is None:
            raise ConfigError(
                f"the shape of {name} is not known here: its config.json cannot be read "
                f"({str(error).strip().splitlines()[0]}).",
                key="model.name",
                hint="Plan on a machine that reaches the model hub, or name a folder with config.json.",
            ) from error
        notes.append("the shape is the published one (config.json is not on this machine)")
        return published


def _tokenizer(name: str, trust_remote_code: bool, causal: bool, notes: list[str]) -> PreTrainedTokenizerBase:
    try:
        tokenizer: PreTrainedTokenizerBase = _read(AutoTokenizer, name, trust_remote_code)
        return tokenizer
    except (OSError, ValueError):
        notes.append("tokens are counted by a simple tokenizer (that of the model is not on this machine)")
        return counting_tokenizer(causal)


def _read(reader: Any, name: str, trust_remote_code: bool) -> Any:
    """Read a file of a model; that of a published one from the cache alone, since a plan knows it anyway."""
    source, options = find(name)
    if name.partition("@")[0] in _published()["shapes"]:
        options["local_files_only"] = True
    return reader.from_pretrained(source, trust_remote_code=trust_remote_code, **options)


@cache
def _published() -> Any:
    return yaml.safe_load((files("sts_lightning.planning") / "published.yaml").read_text(encoding="utf-8"))


def published_shape(name: str) -> PreTrainedConfig | None:
    """Return the configuration of a published model, or None for another one.

    Args:
        name: Hub id, optionally followed by ``@commit``.
    """
    sizes = _published()["shapes"].get(name.partition("@")[0])
    return None if sizes is None else AutoConfig.for_model(**sizes)


def counting_tokenizer(causal: bool) -> PreTrainedTokenizerFast:
    """Build a tokenizer that counts about as many tokens as a trained one.

    Args:
        causal: Whether a row has a start token alone, as decoders' rows have, or an end token too.
    """
    tokenizer = Tokenizer.from_str(json.dumps(_published()["tokenizer"]))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A" if causal else "<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **_published()["special_tokens"])


def _build(base: Base, settings: PreTrainedConfig, trust_remote_code: bool) -> PreTrainedModel:
    """Build a backbone by its shape, its linear layers those of bitsandbytes if quantised."""
    precision = dtype_of(base.dtype)
    with torch.device("meta"):
        architecture: Any = class_of(settings)
        if hasattr(architecture, "from_config"):  # one of the library's loaders, not a class of a model
            model = architecture.from_config(settings, trust_remote_code=trust_remote_code, dtype=precision)
        else:
            model = architecture._from_config(settings, dtype=precision)
    if base.quantization != "none":
        quantizer = AutoHfQuantizer.from_config(quantization_config(base.quantization, precision))
        quantizer.preprocess_model(model=model, device_map={"": "cpu"})
        quantizer.postprocess_model(model=model)
        model.is_quantized = True
    backbone = take_encoder(model.eval(), str(base.name))
    prepare(backbone)
    return backbone


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what is logged of a loaded model out of a plan."""
    logger = logging.getLogger("sts_lightning.models")
    level = logger.level
    logger.setLevel(logging.WARNING)
    restrain_library()
    try:
        yield
    finally:
        logger.setLevel(level)
