"""Backbones without weights: the classes of the composed model, on torch's ``meta`` device."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

import torch
import yaml
from tokenizers import Tokenizer, processors
from transformers import (
    AutoConfig,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from sts_lightning.models.encoding import Base
from sts_lightning.models.loading.backbone import (
    Loaded,
    class_of,
    configure,
    dtype_of,
    explain,
    is_causal,
    prepare,
    restrain_library,
    set_attention,
    take_encoder,
)
from sts_lightning.models.loading.hub import ModelFiles, find, find_adapter
from sts_lightning.models.loading.own_file import base_of, read_own
from sts_lightning.models.loading.quantization import quantization_config


def load_meta(base: Base, trust_remote_code: bool = False, device: str | None = None) -> Loaded:
    """Build a backbone whose weights have a shape and no values, and load its tokenizer.

    Only ``config.json`` and the tokenizer are read, from a folder, the hub or its cache. A published model
    whose files are not on this machine has its published shape and a tokenizer that counts about as many
    tokens; the attribute ``assumed`` of the backbone says so. Quantised layers are those of bitsandbytes.

    Args:
        base: The model, and how it is loaded.
        trust_remote_code: Whether to run code that comes with the model.
        device: Not used: the device is ``meta``.

    Raises:
        ConfigError: The shape of the model is not known here, or it has no such setting.
    """
    name, assumed = str(base.name), list[str]()
    restrain_library()
    while find_adapter(name) is not None:  # merged into its base, it changes no shape
        folder = ModelFiles(name)
        name = str(base_of(folder, read_own(folder)).name)
    source, options = find(name)
    if name.partition("@")[0] in _published()["shapes"]:  # a plan knows these anyway: the cache is enough
        options["local_files_only"] = True
    options["trust_remote_code"] = trust_remote_code
    try:
        settings = AutoConfig.from_pretrained(source, **options)
    except (OSError, ValueError) as error:
        settings = published_shape(name)
        if settings is None:
            raise explain(name, error) from error
        assumed.append("the shape is the published one (config.json is not on this machine)")
    configure(settings, dict(base.config), name, trust_remote_code)
    backbone = _build(replace(base, name=name), settings, trust_remote_code)
    set_attention(backbone, base.config, name)
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
    except (OSError, ValueError):
        tokenizer = counting_tokenizer(is_causal(backbone))
        assumed.append("tokens are counted by a simple tokenizer (that of the model is not on this machine)")
    backbone.assumed = tuple(assumed)  # type: ignore[assignment]  # a plain attribute
    return backbone, tokenizer


@cache
def _published() -> Any:
    return yaml.safe_load((files("sts_lightning.models.loading") / "published.yaml").read_text("utf-8"))


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
    precision = dtype_of(base.dtype)
    with torch.device("meta"):
        architecture: Any = class_of(settings)
        if hasattr(architecture, "from_config"):  # one of the library's loaders, not a class of a model
            model = architecture.from_config(settings, trust_remote_code=trust_remote_code, dtype=precision)
        else:
            model = architecture._from_config(settings, dtype=precision)
    if base.quantization != "none":
        from transformers.quantizers.auto import AutoHfQuantizer

        quantizer = AutoHfQuantizer.from_config(quantization_config(base.quantization, precision))
        quantizer.preprocess_model(model=model, device_map={"": "cpu"})
        quantizer.postprocess_model(model=model)
        model.is_quantized = True
    backbone = take_encoder(model.eval(), str(base.name))
    prepare(backbone)
    return backbone
