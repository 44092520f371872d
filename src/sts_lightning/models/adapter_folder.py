"""Peft adapters as models, in folders or on the hub: the base that they name, with the adapter merged."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, get_args

from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedModel

from sts_lightning.choices import Quantization
from sts_lightning.errors import CheckpointError, ConfigError, UserError
from sts_lightning.models.backbone import DtypeName, Loaded, has_stand_in, load_backbone
from sts_lightning.models.finite_weights import check_finite
from sts_lightning.models.model_files import ModelFiles
from sts_lightning.models.out_of_memory import is_out_of_memory
from sts_lightning.models.quantization import check_quantization, dequantized
from sts_lightning.models.vocabulary import check_vocabulary

SETTINGS = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"

EXPORTED = "sts_lightning.json"
"""Settings of an export, among them the quantisation of the base in training."""

USE_RUN = "Load the run that it was exported from."

REPEATABLE = ("gaussian", "eva", "orthogonal", "pissa", "olora")
"""Initial values of LoRA that leave the base as it is, or change it in a way that is unique."""


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

    The base may be an adapter too. The adapter of a run whose base was quantised is merged into
    the dequantised values that it was trained with, as the export format ``merged`` does.

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
    adapter = find_adapter(name)
    if adapter is None:
        return load_backbone(name, config, trust_remote_code, dtype, quantization, device)
    check_quantization(quantization)
    if quantization != "none":
        raise ConfigError(
            f"model.quantization={quantization} with the adapter {name}: it is merged when it is loaded, and "
            "the result is not quantised.",
            key="model.quantization",
            hint="Set it to none, or export the run with --format merged and name that folder.",
        )
    folders, base, trained_with = _chain(adapter)
    try:
        backbone, tokenizer = load_backbone(base, config, trust_remote_code, dtype, trained_with, device)
    except (UserError, ValueError) as error:
        raise ConfigError(
            f"the adapter {folders[-1]} needs its base {base}: {error}",
            key="model.name",
            hint=f"If the base has moved, set base_model_name_or_path in {folders[-1] / SETTINGS}.",
        ) from error
    if has_stand_in():  # an adapter that is merged changes no shape
        return backbone, tokenizer
    backbone = dequantized(backbone)
    for folder in reversed(folders):
        backbone = _merge(backbone, folder)
        if (folder / "tokenizer_config.json").is_file():
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
            check_vocabulary(tokenizer, backbone, str(folder))
    return backbone, tokenizer


def _chain(adapter: Path) -> tuple[list[Path], str, Quantization]:
    """Follow an adapter to its base, which may be an adapter again.

    Returns:
        The adapters, the outer one first; the base of the last; and its quantisation in training.

    Raises:
        CheckpointError: A file is broken, or the adapters are each other's base.
    """
    folders: list[Path] = []
    trained_with: Quantization = "none"
    found: Path | None = adapter
    while found is not None:
        if found.resolve() in [folder.resolve() for folder in folders]:
            raise CheckpointError(f"{found}: {SETTINGS} leads back to the folder itself.", key="model.name")
        folders.append(found)
        files = ModelFiles(str(found))
        settings = files.settings(SETTINGS)
        base, revision = settings.take("base_model_name_or_path", str), settings.take("revision", str)
        if not base:
            raise settings.broken("base_model_name_or_path is missing, the model that the adapter is for")
        own = files.settings(EXPORTED)
        kind: Any = own.take("quantization", str) or "none"
        if kind not in get_args(Quantization):
            raise own.broken(f"quantization must be one of {', '.join(get_args(Quantization))}, got {kind!r}")
        trained_with = kind
        name = f"{base}@{revision}" if revision and not Path(base).is_dir() else base
        found = find_adapter(name)
    return folders, name, trained_with


def _merge(backbone: PreTrainedModel, folder: Path) -> PreTrainedModel:
    """Merge an adapter into its base.

    Raises:
        ConfigError: The adapter is of a kind that cannot be merged, or started from what is not repeatable.
        CheckpointError: Its files are broken, or do not fit the base.
    """
    from peft import PeftConfig, PeftModel  # takes seconds

    from sts_lightning.models.adapter import repeat_layer_types, separate_replicas

    weights = _weights(folder)
    frozen = {name for name, value in backbone.named_parameters() if not value.requires_grad}
    try:
        settings: Any = PeftConfig.from_pretrained(str(folder))
        kind = str(settings.peft_type).rpartition(".")[2]
        if settings.is_prompt_learning:
            raise ConfigError(f"{folder}: an adapter of kind {kind} cannot be merged.", hint=USE_RUN)
        _check_start(settings, folder)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about missing weights, an error below
            whole: Any = PeftModel.from_pretrained(backbone, str(folder), config=settings)
            settings.base_model_name_or_path = None  # else the library asks the hub for its vocabulary
            expected, wrong = _differences(whole, weights)
        if wrong:
            raise CheckpointError(
                f"{folder / WEIGHTS}: {len(wrong)} of {expected} weights differ in name or shape from "
                f"those of the adapter around {type(backbone).__name__} (such as {wrong[0]}); it belongs to "
                "another model, or is incomplete.",
                key="model.name",
            )
        if getattr(settings, "layer_replication", None):
            repeat_layer_types(backbone, settings)
            separate_replicas(whole)
        merged: PreTrainedModel = whole.merge_and_unload()
    except UserError as error:
        error.key = error.key or "model.name"
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


def _differences(adapted: Any, weights: dict[str, Tensor]) -> tuple[int, list[str]]:
    """Compare the weights of a file with those of the adapter that it was loaded into.

    The library writes the base's embeddings too where the adapter changes them, unless it is told not to.

    Returns:
        Number of weights that the adapter has, and the names of those that differ or are missing.
    """
    from peft import get_peft_model_state_dict

    found = {name: value.shape for name, value in weights.items()}
    results = []
    for with_embeddings in (False, True):
        saved = get_peft_model_state_dict(adapted, save_embedding_layers=with_embeddings)
        expected = {name: value.shape for name, value in saved.items()}
        wrong = sorted(name for name in expected | found if expected.get(name) != found.get(name))
        results.append((len(expected), wrong))
    return min(results, key=lambda result: len(result[1]))


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


def _check_start(settings: Any, folder: Path) -> None:
    """Reject an adapter whose base would not be that of its training, or that would import modules.

    Raises:
        ConfigError: See above.
    """
    initial = getattr(settings, "init_lora_weights", True)
    if isinstance(initial, str) and initial.lower() not in REPEATABLE:
        raise ConfigError(
            f"{folder}: init_lora_weights={initial} changes the base in a way that cannot be repeated.",
            hint="Convert the adapter by peft's path_initial_model_for_weight_conversion.",
        )
    if getattr(settings, "megatron_config", None):
        raise ConfigError(
            f"{folder}: megatron_config names code, which is not run.", hint="Remove the entry."
        )
