"""Encoders without weights: the composed model's own classes, on the meta device."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from omegaconf import DictConfig
from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.quantizers.auto import AutoHfQuantizer

from sts_lightning.choices import Quantization
from sts_lightning.errors import ConfigError
from sts_lightning.models.attention import is_causal
from sts_lightning.models.attention_kernel import set_attention
from sts_lightning.models.backbone import (
    DTYPES_BY_NAME,
    DtypeName,
    Loaded,
    configure,
    find,
    loading_by,
    prepare,
)
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.encoder_decoder import loader, take_encoder
from sts_lightning.models.loading import build_encoder
from sts_lightning.models.quantization import check_fraction, quantization_config
from sts_lightning.planning.fake import naming_what_has_no_plan
from sts_lightning.planning.shapes import published_shape
from sts_lightning.planning.stand_in import stand_in_tokenizer


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


def build_skeleton(
    model: DictConfig, prompt: DictConfig, layers: int | None = None, device: str = "meta"
) -> Skeleton:
    """Build the encoder of a configuration without its weights; only its config.json and tokenizer are read.

    Args:
        model: Configuration group ``model``.
        prompt: Configuration group ``prompt``.
        layers: Number of layers to build instead of all.
        device: ``meta``, or ``cpu`` for random weights.

    Raises:
        ConfigError: The shape of the model is not known here, or a setting is out of range.
    """
    notes: list[str] = []
    depth: int | None = None

    def load(
        name: str,
        config: dict[str, Any] | None,
        trust_remote_code: bool,
        dtype: DtypeName,
        quantization: Quantization,
        _: str | None,
    ) -> Loaded:
        settings = _settings(name, trust_remote_code, notes)
        configure(settings, config or {}, name, trust_remote_code)
        nonlocal depth
        depth = getattr(settings, "num_hidden_layers", None)
        if layers is not None and depth is not None:
            _cut(settings, layers)
        backbone = _build(name, settings, trust_remote_code, dtype, quantization, device)
        set_attention(backbone, config or {}, name)
        return backbone, _tokenizer(name, trust_remote_code, is_causal(backbone), notes)

    with naming_what_has_no_plan(), loading_by(load), _quiet():
        encoder = build_encoder(model, prompt, "cpu")
    return Skeleton(encoder, depth, notes)


def _cut(settings: PreTrainedConfig, layers: int) -> None:
    """Lower the number of layers of a model's configuration."""
    types = getattr(settings, "layer_types", None)
    if types is not None:
        settings.layer_types = list(types)[:layers]
    settings.num_hidden_layers = layers


def _settings(name: str, trust_remote_code: bool, notes: list[str]) -> PreTrainedConfig:
    """Read a model's config.json, from a folder, the hub or its cache; else take the published shape."""
    source, options = find(name)
    try:
        found: PreTrainedConfig = AutoConfig.from_pretrained(
            source, trust_remote_code=trust_remote_code, **options
        )
    except (OSError, ValueError) as error:
        published = published_shape(name)
        if published is None:
            raise ConfigError(
                f"the shape of {name} is not known here: its config.json cannot be read "
                f"({str(error).strip().splitlines()[0]}).",
                key="model.name",
                hint="Plan on a machine that reaches the model hub, or name a folder with config.json.",
            ) from error
        notes.append("the shape is the published one (config.json of the hub cannot be read here)")
        return published
    return found


def _tokenizer(name: str, trust_remote_code: bool, causal: bool, notes: list[str]) -> PreTrainedTokenizerBase:
    source, options = find(name)
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            source, trust_remote_code=trust_remote_code, **options
        )
    except (OSError, ValueError):
        notes.append("tokens are counted by a stand-in, since the tokenizer cannot be read here")
        return stand_in_tokenizer(causal)
    return tokenizer


def _build(
    name: str,
    settings: PreTrainedConfig,
    trust_remote_code: bool,
    dtype: DtypeName,
    quantization: Quantization,
    device: str,
) -> PreTrainedModel:
    """Build a backbone by its shape, its linear layers those of bitsandbytes if quantised."""
    with torch.device(device):
        own: Any = loader(settings)
        options: dict[str, Any] = {"dtype": DTYPES_BY_NAME[dtype]}
        if hasattr(own, "from_config"):  # one of the library's loaders, not a class of a model
            model = own.from_config(settings, trust_remote_code=trust_remote_code, **options)
        else:
            model = own._from_config(settings, **options)
    if quantization != "none":
        quantizer = AutoHfQuantizer.from_config(quantization_config(quantization, DTYPES_BY_NAME[dtype]))
        quantizer.preprocess_model(model=model, device_map={"": "cpu"})
        quantizer.postprocess_model(model=model)
        model.is_quantized = True
    backbone = take_encoder(model.eval(), name)
    prepare(backbone)
    if quantization != "none":
        check_fraction(backbone, quantization, name)
    return backbone


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the library's progress bars and warnings out of a plan."""
    own, verbosity = logging.getLogger("sts_lightning.models"), transformers.utils.logging.get_verbosity()
    level = own.level
    own.setLevel(logging.WARNING)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    try:
        yield
    finally:
        own.setLevel(level)
        transformers.utils.logging.set_verbosity(verbosity)
