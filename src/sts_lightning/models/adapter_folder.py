"""Peft adapters as models, in folders or on the hub: the base that they name, with the adapter merged."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedModel

from sts_lightning.choices import Quantization
from sts_lightning.errors import CheckpointError, ConfigError, UserError
from sts_lightning.models.backbone import DtypeName, Loaded, has_stand_in, load_backbone
from sts_lightning.models.finite_weights import check_finite
from sts_lightning.models.inference import is_out_of_memory
from sts_lightning.models.model_files import ModelFiles
from sts_lightning.models.quantization import check_quantization, dequantized
from sts_lightning.models.vocabulary import check_vocabulary
from sts_lightning.strict_json import read_json

SETTINGS = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"

EXPORTED = "sts_lightning.json"
"""Settings of an export, among them the quantisation of the base in training."""

USE_RUN = "Load the run that it was exported from."

TOKENIZER = ("*token*.json", "vocab.*", "merges.txt", "*.model", "chat_template.jinja")
"""Patterns of the names of a tokenizer's files."""


def find_adapter(name: str) -> Path | None:
    """Return the folder of an adapter, downloaded from the hub if it is there; None for a model."""
    if Path(name).is_dir():
        folder = Path(name)
        return folder if (folder / SETTINGS).is_file() and not (folder / "config.json").is_file() else None
    files = ModelFiles(name)
    try:
        if files.path("config.json") is not None or files.path(SETTINGS) is None:
            return None
    except ConfigError:  # loading the model says what is wrong
        return None
    return files.folder((SETTINGS, WEIGHTS, EXPORTED, *TOKENIZER))


def load_model(
    name: str,
    config: dict[str, Any] | None = None,
    trust_remote_code: bool = False,
    dtype: DtypeName = "float32",
    quantization: Quantization = "none",
    device: str | None = None,
) -> Loaded:
    """Load a model as `load_backbone`, or the base of an adapter with the adapter merged.

    The adapter of a run whose base was quantised is merged into the dequantised values that it was trained
    with, as the export format ``merged`` does.

    Args:
        name: Model, or an adapter that peft wrote: local folder or hub id, optionally with ``@commit``.
        config: See `load_backbone`, also for the arguments below.
        trust_remote_code: Whether to run code that comes with the base.
        dtype: dtype of the weights.
        quantization: Quantisation; must be ``none`` for an adapter.
        device: Device that quantised weights are loaded to.

    Raises:
        ConfigError: The adapter cannot be merged, is to be quantised, or its base cannot be loaded.
        CheckpointError: The adapter's files are broken, or do not fit the base.
    """
    folder = find_adapter(name)
    if folder is None:
        return load_backbone(name, config, trust_remote_code, dtype, quantization, device)
    check_quantization(quantization)
    if quantization != "none":
        raise ConfigError(
            f"model.quantization={quantization} with the adapter {name}: it is merged when it is loaded, and "
            "the result is not quantised.",
            key="model.quantization",
            hint="Set it to none, or export the run with --format merged and name that folder.",
        )
    settings, base, trained_with = _settings(folder)
    try:
        backbone, tokenizer = load_backbone(base, config, trust_remote_code, dtype, trained_with, device)
    except (UserError, ValueError) as error:
        raise ConfigError(
            f"the adapter {folder} needs its base {base}, a model and no adapter: {error}",
            key="model.name",
            hint=f"If the base has moved, set base_model_name_or_path in {folder / SETTINGS}.",
        ) from error
    if has_stand_in():  # an adapter that is merged changes no shape
        return backbone, tokenizer
    backbone = _merge(dequantized(backbone), settings, folder)
    if (folder / "tokenizer_config.json").is_file():
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        check_vocabulary(tokenizer, backbone, str(folder))
    return backbone, tokenizer


def _settings(folder: Path) -> tuple[Any, str, Quantization]:
    """Read an adapter's settings, its base, and the quantisation of the base in training.

    Raises:
        CheckpointError: A file is broken.
        ConfigError: The adapter is none that can be merged.
    """
    from peft import PeftConfig  # takes seconds

    from sts_lightning.models.adapter import check_adapter

    try:
        settings: Any = PeftConfig.from_pretrained(str(folder))
        base, revision = settings.base_model_name_or_path, settings.revision
        if not isinstance(base, str) or not base:
            raise ValueError("base_model_name_or_path is missing, the model that the adapter is for")
        exported = folder / EXPORTED
        trained_with: Any = "none"
        if exported.is_file():
            trained_with = read_json(exported).get("quantization") or "none"
        check_quantization(trained_with)
    except Exception as error:  # the library has no class of its own for damaged files
        raise CheckpointError(
            f"{folder}: {SETTINGS} or {EXPORTED} cannot be read ({' '.join(str(error).split())[:200]}).",
            key="model.name",
        ) from error
    if settings.is_prompt_learning:
        kind = str(settings.peft_type).rpartition(".")[2]
        raise ConfigError(
            f"{folder}: an adapter of kind {kind} cannot be merged.", key="model.name", hint=USE_RUN
        )
    try:
        check_adapter(settings)
    except (ConfigError, ValueError) as error:
        raise ConfigError(f"{folder}: {error}", key="model.name") from error
    name = f"{base}@{revision}" if revision and not Path(base).is_dir() else base
    return settings, name, trained_with


def _merge(backbone: PreTrainedModel, settings: Any, folder: Path) -> PreTrainedModel:
    """Merge an adapter into its base.

    Raises:
        CheckpointError: Its weights are broken, or do not fit the base.
    """
    from peft import PeftModel, get_peft_model_state_dict

    weights = _weights(folder)
    frozen = {name for name, value in backbone.named_parameters() if not value.requires_grad}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about missing weights, an error below
            whole: Any = PeftModel.from_pretrained(backbone, str(folder), config=settings)
        settings.base_model_name_or_path = None  # else the library asks the hub for its vocabulary
        # The library writes the base's embeddings too where the adapter changes them, unless told not to.
        needed = get_peft_model_state_dict(whole, save_embedding_layers=False)
        allowed = get_peft_model_state_dict(whole, save_embedding_layers=True)
        wrong = sorted(needed.keys() - weights.keys()) + sorted(
            name
            for name, value in weights.items()
            if name not in allowed or allowed[name].shape != value.shape
        )
        if wrong:
            raise CheckpointError(
                f"{folder / WEIGHTS}: {len(wrong)} of {len(needed)} weights differ in name or shape from "
                f"those of the adapter around {type(backbone).__name__} (such as {wrong[0]}); it belongs to "
                "another model, or is incomplete.",
                key="model.name",
            )
        merged: PreTrainedModel = whole.merge_and_unload()
    except UserError:
        raise
    except Exception as error:  # the library has no class of its own for damaged files
        if is_out_of_memory(error):
            raise
        raise CheckpointError(
            f"{folder}: the adapter cannot be put into {type(backbone).__name__} "
            f"({type(error).__name__}: {' '.join(str(error).split())[:200]}).",
            key="model.name",
            hint=f"Check {SETTINGS}; the base it names must be the one it was trained with.",
        ) from error
    for name, value in merged.named_parameters():  # the library freezes the base
        value.requires_grad_(name not in frozen)
    return merged


def _weights(folder: Path) -> dict[str, Tensor]:
    """Read the weights of an adapter.

    Raises:
        CheckpointError: The file is missing or broken, or a value is not finite.
    """
    path = folder / WEIGHTS
    if not path.is_file():
        raise CheckpointError(
            f"{folder} has no {WEIGHTS}; other formats are not loaded.", key="model.name", hint=USE_RUN
        )
    try:
        weights: dict[str, Tensor] = load_file(path)
    except Exception as error:  # safetensors has an error class of its own in each version
        raise CheckpointError(f"{path} cannot be read: {error}", key="model.name") from error
    check_finite(weights.items(), str(path), "model.name")
    return weights
