"""peft adapters: around a backbone, and in folders, merged into the base that they name."""

from __future__ import annotations

import copy
import inspect
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoTokenizer, PreTrainedModel

from sts_lightning.core.choices import Quantization
from sts_lightning.core.errors import CheckpointError, ConfigError, UserError
from sts_lightning.core.files import read_json
from sts_lightning.models.compute.inference import is_out_of_memory
from sts_lightning.models.compute.lora import fuse
from sts_lightning.models.loading.backbone import (
    DtypeName,
    Loaded,
    check_finite,
    check_vocabulary,
    load_backbone,
)
from sts_lightning.models.loading.hub import OWN_FILE, SETTINGS, WEIGHTS
from sts_lightning.models.loading.quantization import check_quantization, dequantized

if TYPE_CHECKING:  # peft takes seconds to import, and few runs have an adapter
    from peft import PeftConfig, PeftModel

STARTS = (True, False, "gaussian", "orthogonal")
"""Initial values of LoRA that leave the base weights as they are, and that follow from the settings alone.

A checkpoint holds the adapter only: with others it would be put around another base than in training.
"""

ALLOWED = (
    "model.adapter takes peft.LoraConfig (also with use_rslora or use_dora; init_lora_weights true, false, "
    "gaussian or orthogonal; without layer_replication and megatron_config) and peft.PrefixTuningConfig"
)


def add_adapter(backbone: PreTrainedModel, adapter: PeftConfig) -> PeftModel:
    """Wrap a backbone in a peft adapter, and freeze its own weights.

    Raises:
        ValueError: The adapter does not fit the backbone.
        ConfigError: The adapter is of another type than `check_adapter` allows.
    """
    from peft import PeftModel, PrefixTuningConfig, get_peft_model

    name = type(backbone).__name__
    check_adapter(adapter)
    prefix = isinstance(adapter, PrefixTuningConfig)
    if prefix and "past_key_values" not in inspect.signature(backbone.forward).parameters:
        raise ValueError(
            f"adapter does not fit {name}: it takes no past_key_values, so a trained prefix would have "
            "no effect. Choose another adapter, such as LoRA."
        )
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*is_gradient_checkpointing.*")  # peft asks transformers
            whole = get_peft_model(
                backbone,
                copy.deepcopy(adapter),  # peft changes the settings
                low_cpu_mem_usage=backbone.device.type == "meta",  # a model without weights stays one
            )
    except (ValueError, TypeError, AttributeError, RuntimeError, MemoryError) as error:
        raise ValueError(f"adapter does not fit {name}: {error}") from error
    assert isinstance(whole, PeftModel)
    if prefix:
        _prepare_prefix(whole, backbone)
    fuse(whole)
    return whole


def check_adapter(adapter: PeftConfig) -> None:
    """Reject adapters other than those that are trained, loaded and exported here.

    Vectors of prompt tuning would move the tokens that are pooled, AdaLoRA needs a further step, PiSSA and
    OLoRA change the base weights.

    Raises:
        ConfigError: An adapter or a start of another type.
        ValueError: A number under which an adapter changes nothing.
    """
    from peft import LoraConfig, PrefixTuningConfig

    if type(adapter) not in (LoraConfig, PrefixTuningConfig):
        raise ConfigError(f"{ALLOWED}, not {type(adapter).__name__}.", key="model.adapter")
    start = getattr(adapter, "init_lora_weights", True)
    if start not in STARTS:
        key = "model.adapter.init_lora_weights"
        raise ConfigError(f"{ALLOWED}, not init_lora_weights={start}.", key=key)
    for name in ("layer_replication", "megatron_config"):
        if getattr(adapter, name, None):
            raise ConfigError(f"{ALLOWED}, not {name}.", key=f"model.adapter.{name}")
    for name in ("lora_alpha", "num_virtual_tokens"):  # with 0 the adapter has neither effect nor gradient
        value: Any = getattr(adapter, name, None)
        if value is not None and value <= 0:
            raise ValueError(f"adapter.{name} must be above 0, got {value}.")
    dropout = getattr(adapter, "lora_dropout", 0.0)
    if not 0 <= dropout < 1:  # peft takes a negative one for none
        raise ValueError(f"adapter.lora_dropout must lie in [0, 1), got {dropout}.")


def _prepare_prefix(whole: PeftModel, backbone: PreTrainedModel) -> None:
    """Give a new prefix the scale and the dropout of the backbone's embeddings and hidden states.

    peft draws it from N(0, 1); BERT's scale is 0.02. Each row of a batch drops other values. Both are as in
    PromCSE's code (`scale
    <https://github.com/YJiangcm/PromCSE/blob/4b319380fa13d018811dd0631bcbeee838c3218e/promcse/models.py#L132>`_,
    `dropout
    <https://github.com/YJiangcm/PromCSE/blob/4b319380fa13d018811dd0631bcbeee838c3218e/promcse/models.py#L396>`_).
    """
    from peft import PrefixEncoder

    scale = getattr(backbone.config, "initializer_range", None)
    rate = getattr(backbone.config, "hidden_dropout_prob", 0.0)
    for encoder in whole.modules():
        if isinstance(encoder, PrefixEncoder):
            if not encoder.prefix_projection and scale is not None:
                with torch.no_grad():
                    encoder.embedding.weight.mul_(scale)
            if rate:
                encoder.register_forward_hook(partial(_dropped, rate))


def _dropped(rate: float, encoder: nn.Module, inputs: tuple[Tensor, ...], prefix: Tensor) -> Tensor:
    return F.dropout(prefix, rate, encoder.training)


USE_RUN = "Load the run that it was exported from."


def load_merged(
    name: str,
    folder: Path,
    config: dict[str, Any] | None,
    trust_remote_code: bool,
    dtype: DtypeName,
    quantization: Quantization,
    device: str | None,
) -> Loaded:
    """Load the base of an adapter, with the adapter merged into it.

    The adapter of a run whose base was quantised is merged into the dequantised values that it was trained
    with, as the export format ``merged`` does.

    Args:
        name: Name of the adapter, for messages.
        folder: Its folder.
        config: See `load_backbone`, also for the arguments below.
        trust_remote_code: Whether to run code that comes with the base.
        dtype: dtype of the weights.
        quantization: It must be ``none``.
        device: Device that quantised weights of the base are loaded to.

    Raises:
        ConfigError: The adapter cannot be merged, is to be quantised, or its base cannot be loaded.
        CheckpointError: The adapter's files are broken, or do not fit the base.
    """
    if quantization != "none":
        raise ConfigError(
            f"model.quantization={quantization} with the adapter {name}: it is merged when it is loaded, and "
            "the result is not quantised.",
            key="model.quantization",
            hint="Set it to none, or export the run with --format merged and name that folder.",
        )
    settings = adapter_settings(folder)
    if settings.is_prompt_learning:
        raise ConfigError(
            f"{folder}: an adapter of type {settings.peft_type.value} cannot be merged.",
            key="model.name",
            hint=USE_RUN,
        )
    base, trained_with = base_of(folder, settings)
    try:
        backbone, tokenizer = load_backbone(base, config, trust_remote_code, dtype, trained_with, device)
    except (UserError, ValueError) as error:
        raise ConfigError(
            f"the adapter {folder} needs its base {base}: {error}",
            key="model.name",
            hint=f"If the base has moved, set base_model_name_or_path in {folder / SETTINGS}.",
        ) from error
    backbone = _merge(dequantized(backbone), settings, folder)
    if (folder / "tokenizer_config.json").is_file():
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        check_vocabulary(tokenizer, backbone, str(folder))
    return backbone, tokenizer


def adapter_settings(folder: Path) -> Any:
    """Read the settings of an adapter in a folder (``PeftConfig``).

    Raises:
        CheckpointError: The file is broken.
        ConfigError: The adapter is none of those that are trained here.
    """
    from peft import PeftConfig

    try:
        settings: Any = PeftConfig.from_pretrained(str(folder))
    except Exception as error:  # the library has no class for damaged files
        raise CheckpointError(
            f"{folder}: {SETTINGS} cannot be read ({' '.join(str(error).split())[:200]}).",
            key="model.name",
        ) from error
    try:
        check_adapter(settings)
    except (ConfigError, ValueError) as error:
        raise ConfigError(f"{folder}: {error}", key="model.name") from error
    settings.inference_mode = False  # which would freeze it
    return settings


def base_of(folder: Path, settings: Any) -> tuple[str, Quantization]:
    """Return the base of an adapter, and its quantisation in training."""
    base, revision = settings.base_model_name_or_path, settings.revision
    try:
        if not isinstance(base, str) or not base:
            raise ValueError("base_model_name_or_path is missing, the model that the adapter is for")
        own = read_json(folder / OWN_FILE) if (folder / OWN_FILE).is_file() else {}
        trained_with: Any = own.get("base", own).get("quantization") or "none"
        check_quantization(trained_with)
    except (ValueError, AttributeError) as error:
        raise CheckpointError(
            f"{folder}: {SETTINGS} or {OWN_FILE} cannot be read ({' '.join(str(error).split())[:200]}).",
            key="model.name",
        ) from error
    if not Path(base).is_dir() and (folder / base).is_dir():  # a base without a name
        return str(folder / base), "none"
    return f"{base}@{revision}" if revision and not Path(base).is_dir() else base, trained_with


def _merge(backbone: PreTrainedModel, settings: Any, folder: Path) -> PreTrainedModel:
    """Merge an adapter into its base.

    Raises:
        CheckpointError: Its weights are broken, or do not fit the base.
    """
    from peft import PeftModel

    frozen = {name for name, value in backbone.named_parameters() if not value.requires_grad}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            settings.base_model_name_or_path = None  # else the library asks the hub for its vocabulary
            whole = PeftModel(backbone, settings)
        load_adapter(whole, folder)
        merged: PreTrainedModel = whole.merge_and_unload()
    except UserError:
        raise
    except Exception as error:  # the library has no class for damaged files
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


def load_adapter(whole: Any, folder: Path) -> None:
    """Load the weights of an adapter in a folder into that of a model.

    Args:
        whole: Model with an adapter (``PeftModel``).
        folder: Folder of the adapter.

    Raises:
        CheckpointError: The weights are broken, or of another adapter or model.
    """
    from peft import get_peft_model_state_dict, set_peft_model_state_dict

    path = folder / WEIGHTS
    try:
        weights = load_file(path)
    except Exception as error:  # safetensors has another error class in each version
        raise CheckpointError(f"{path} cannot be read: {error}", key="model.name", hint=USE_RUN) from error
    check_finite(weights.items(), str(path), "model.name")
    # The library writes the base's embeddings too where the adapter changes them, unless told not to.
    needed = get_peft_model_state_dict(whole, save_embedding_layers=False)
    allowed = get_peft_model_state_dict(whole, save_embedding_layers=True)
    wrong = sorted(needed.keys() - weights.keys()) + sorted(
        name for name, value in weights.items() if name not in allowed or allowed[name].shape != value.shape
    )
    if wrong:
        raise CheckpointError(
            f"{path}: {len(wrong)} of {len(needed)} weights differ in name or shape from "
            f"those of the adapter around {type(whole.get_base_model()).__name__} (such as {wrong[0]}); it "
            "belongs to another model, or is incomplete.",
            key="model.name",
        )
    set_peft_model_state_dict(whole, weights)
