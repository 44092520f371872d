"""peft adapters: around a backbone, and in folders, merged into the base that they name."""

from __future__ import annotations

import copy
import inspect
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from sts_lightning.core.errors import CheckpointError, ConfigError
from sts_lightning.models.compute.lora import fuse
from sts_lightning.models.loading.checks import check_weights, read_weights
from sts_lightning.models.loading.hub import SETTINGS, WEIGHTS
from sts_lightning.models.loading.quantization import dequantized

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

    check_adapter(adapter)
    prefix = isinstance(adapter, PrefixTuningConfig)
    if prefix and "past_key_values" not in inspect.signature(backbone.forward).parameters:
        raise ValueError(
            f"adapter does not fit {type(backbone).__name__}: it takes no past_key_values, so a trained "
            "prefix would have no effect. Choose another adapter, such as LoRA."
        )
    settings: Any = copy.deepcopy(adapter)  # peft changes it
    meta = backbone.device.type == "meta"
    if meta and any(type(weight).__name__ == "Params4bit" for weight in backbone.parameters()):
        settings.use_dora = False  # the norms of DoRA, one for each output, need the values of the weights
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*is_gradient_checkpointing.*")  # peft asks transformers
        warnings.filterwarnings("ignore", ".*was renamed from.*")  # its folder, of the same base
        try:
            whole = get_peft_model(backbone, settings, low_cpu_mem_usage=meta)  # without weights it stays so
        except (ValueError, TypeError, AttributeError, RuntimeError) as error:
            raise ValueError(f"adapter does not fit {type(backbone).__name__}: {error}") from error
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

    key, start = "model.adapter", getattr(adapter, "init_lora_weights", True)
    if type(adapter) not in (LoraConfig, PrefixTuningConfig):
        raise ConfigError(f"{ALLOWED}, not {type(adapter).__name__}.", key=key)
    if start not in STARTS:
        raise ConfigError(f"{ALLOWED}, not init_lora_weights={start}.", key=f"{key}.init_lora_weights")
    for name in ("layer_replication", "megatron_config"):
        if getattr(adapter, name, None):
            raise ConfigError(f"{ALLOWED}, not {name}.", key=f"{key}.{name}")
    for name in ("lora_alpha", "num_virtual_tokens"):  # with 0 the adapter has neither effect nor gradient
        value: Any = getattr(adapter, name, None)
        if value is not None and value <= 0:
            raise ValueError(f"adapter.{name} must be above 0, got {value}.")


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
            f"{folder}: {SETTINGS} cannot be read ({' '.join(str(error).split())[:200]}).", key="model.name"
        ) from error
    try:
        check_adapter(settings)
    except (ConfigError, ValueError) as error:
        raise ConfigError(f"{folder}: {error}", key="model.name") from error
    settings.inference_mode = False  # which would freeze it
    return settings


def load_adapter(whole: Any, folder: Path) -> None:
    """Load the weights of an adapter in a folder into that of a model (``PeftModel``).

    Raises:
        CheckpointError: The weights are broken, or of another adapter or model.
    """
    from peft import get_peft_model_state_dict, set_peft_model_state_dict

    path = folder / WEIGHTS
    weights = read_weights(path)
    # The library writes the base's embeddings too where the adapter changes them, unless told not to.
    required = get_peft_model_state_dict(whole, save_embedding_layers=False).keys()
    allowed = get_peft_model_state_dict(whole, save_embedding_layers=True)
    check_weights(allowed, weights, str(path), required, "model.name")
    set_peft_model_state_dict(whole, weights)


def merge(whole: PeftModel) -> PreTrainedModel:
    """Merge the adapter of a model, which is changed in place, into the dequantised weights of its base.

    Raises:
        ConfigError: The adapter cannot be merged, such as a prefix, or a bias of LoRA on layers without bias.
    """
    from peft import get_peft_model_state_dict, set_peft_model_state_dict

    config: Any = copy.deepcopy(whole.peft_config["default"])
    tuner: Any = whole.base_model
    if not hasattr(tuner, "merge_and_unload"):
        kind = str(config.peft_type).rpartition(".")[2]
        raise ConfigError(
            f"an adapter of type {kind} cannot be merged; load the run, or export it with --format adapter.",
            key="model.name",
        )
    # Merged into quantised weights, the adapter would be rounded to their grid: they are dequantised first.
    trained = get_peft_model_state_dict(whole, save_embedding_layers=False)
    with_adapter = add_adapter(dequantized(tuner.unload()), config)
    set_peft_model_state_dict(with_adapter, trained)
    tuner = with_adapter.base_model
    merged: PreTrainedModel = tuner.merge_and_unload()
    return merged
