"""peft adapters around a backbone: LoRA, DoRA and trained prefixes."""

from __future__ import annotations

import copy
import inspect
import math
import warnings
from functools import partial
from typing import Any

import torch
from peft import LoraConfig, PeftConfig, PeftModel, PrefixEncoder, PrefixTuningConfig, get_peft_model
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from sts_lightning.errors import ConfigError
from sts_lightning.models.lora_dropout import save_inputs_once

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
        ConfigError: The adapter is of another kind than `check_adapter` allows.
    """
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
        _scale_prefix(whole, backbone)
        _drop_prefix(whole, backbone)
    save_inputs_once(whole)
    return whole


def check_adapter(adapter: PeftConfig) -> None:
    """Reject adapters other than those that are trained, loaded and exported here.

    Vectors of prompt tuning would move the tokens that are pooled, AdaLoRA needs a step of its own, PiSSA and
    OLoRA change the base weights.

    Raises:
        ConfigError: An adapter or a start of another kind.
        ValueError: A number under which an adapter changes nothing.
    """
    if type(adapter) not in (LoraConfig, PrefixTuningConfig):
        raise ConfigError(f"{ALLOWED}, not {type(adapter).__name__}.", key="model.adapter")
    start = getattr(adapter, "init_lora_weights", True)
    if start not in STARTS:
        key = "model.adapter.init_lora_weights"
        raise ConfigError(f"{ALLOWED}, not init_lora_weights={start}.", key=key)
    for name in ("layer_replication", "megatron_config"):
        if getattr(adapter, name, None):
            raise ConfigError(f"{ALLOWED}, not {name}.", key=f"model.adapter.{name}")
    bounds = {
        "lora_alpha": (0, math.inf),  # scales the adapter; with 0 it has neither effect nor gradient
        "lora_dropout": (-math.ulp(0), 1),
        "num_virtual_tokens": (0, math.inf),
    }
    for name, (above, below) in bounds.items():
        value: Any = getattr(adapter, name, None)
        if value is not None and not above < value < below:
            raise ValueError(f"adapter.{name} must lie above {max(0, above)} and below {below}, got {value}.")


@torch.no_grad()
def _scale_prefix(whole: PeftModel, backbone: PreTrainedModel) -> None:
    """Scale a new prefix from peft's N(0, 1) to the initial scale of the backbone's own embeddings.

    It is 0.02 in BERT, as in `PromCSE's code
    <https://github.com/YJiangcm/PromCSE/blob/4b319380fa13d018811dd0631bcbeee838c3218e/promcse/models.py#L132>`_.
    """
    scale = getattr(backbone.config, "initializer_range", None)
    for encoder in whole.modules():
        if isinstance(encoder, PrefixEncoder) and not encoder.prefix_projection and scale is not None:
            encoder.embedding.weight.mul_(scale)


def _drop_prefix(whole: PeftModel, backbone: PreTrainedModel) -> None:
    """Drop values of a prefix in training at the rate of the backbone's hidden states, each row its own.

    So does `PromCSE's code
    <https://github.com/YJiangcm/PromCSE/blob/4b319380fa13d018811dd0631bcbeee838c3218e/promcse/models.py#L396>`_.
    """
    rate = getattr(backbone.config, "hidden_dropout_prob", 0.0)
    for encoder in whole.modules():
        if isinstance(encoder, PrefixEncoder) and rate:
            encoder.register_forward_hook(partial(_dropped, rate))


def _dropped(rate: float, encoder: nn.Module, inputs: tuple[Tensor, ...], prefix: Tensor) -> Tensor:
    return F.dropout(prefix, rate, encoder.training)
