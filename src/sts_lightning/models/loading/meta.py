"""Backbones without the values of their weights: the model's own classes on torch's ``meta`` device."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoConfig, AutoTokenizer
from transformers.quantizers.auto import AutoHfQuantizer

from sts_lightning.core.errors import UserError
from sts_lightning.models.encoding import Base
from sts_lightning.models.loading.backbone import (
    Loaded,
    class_of,
    configure,
    dtype_of,
    explain,
    prepare,
    restrain_library,
    set_attention,
    take_encoder,
)
from sts_lightning.models.loading.hub import ModelFiles, find, find_adapter
from sts_lightning.models.loading.own_file import base_of, read_own
from sts_lightning.models.loading.quantization import quantization_config


def load_on_meta(base: Base, trust_remote_code: bool = False, device: str | None = None) -> Loaded:
    """Build a backbone by its shape, and load its tokenizer; see `load_backbone`.

    Nothing is read but configuration and tokenizer. An adapter that would be merged into its base changes no
    shape.
    """
    name = str(base.name)
    while find_adapter(name) is not None:
        files = ModelFiles(name)
        name = str(base_of(files, read_own(files)).name)
    source, options = find(name)
    options["trust_remote_code"] = trust_remote_code
    restrain_library()
    try:
        settings = AutoConfig.from_pretrained(source, **options)
        configure(settings, dict(base.config), name, trust_remote_code)
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
    except (UserError, ImportError):
        raise
    except Exception as error:  # each library has other errors for damaged files
        raise explain(name, error) from error
    precision = dtype_of(base.dtype)
    architecture: Any = class_of(settings)
    with torch.device("meta"):
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
    set_attention(backbone, base.config, name)
    return backbone, tokenizer
