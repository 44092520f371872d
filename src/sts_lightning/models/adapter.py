"""peft adapters around a backbone."""

from __future__ import annotations

import copy
import inspect
import math
import warnings
from typing import Any

import torch
from peft import PeftConfig, PeftModel, PeftType, PrefixEncoder, get_peft_model
from torch import nn
from transformers import PreTrainedModel

from sts_lightning.models.lora_dropout import save_inputs_once


def add_adapter(backbone: PreTrainedModel, adapter: PeftConfig) -> PeftModel:
    """Wrap a backbone in a peft adapter, and freeze its own weights.

    Raises:
        ValueError: The adapter does not fit the backbone.
    """
    name = type(backbone).__name__
    if not isinstance(adapter, PeftConfig):
        raise ValueError(
            f"adapter must have a _target_ among peft's configurations, as peft.LoraConfig, got {adapter}."
        )
    check_adapter(adapter)
    takes_prefix = "past_key_values" in inspect.signature(backbone.forward).parameters
    if adapter.peft_type == PeftType.PREFIX_TUNING and not takes_prefix:
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
    if adapter.peft_type == PeftType.PREFIX_TUNING:
        _scale_prefix(whole, backbone)
    save_inputs_once(whole)
    return whole


def check_adapter(adapter: PeftConfig) -> None:
    """Reject numbers under which an adapter changes nothing; peft takes them.

    Raises:
        ValueError: One of them; the message begins with the name of the argument.
    """
    bounds = {
        "lora_alpha": (0, math.inf),  # scales the adapter; with 0 it has neither effect nor gradient
        "lora_dropout": (-math.ulp(0), 1),
        "num_virtual_tokens": (0, math.inf),
    }
    for key, (above, below) in bounds.items():
        value = getattr(adapter, key, None)
        if value is not None and not above < value < below:
            raise ValueError(f"adapter.{key} must lie above {max(0, above)} and below {below}, got {value}.")


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


def plain(backbone: nn.Module) -> PreTrainedModel:
    """Return the backbone inside an adapter; a backbone without an adapter is returned unchanged."""
    model: Any = backbone.get_base_model() if isinstance(backbone, PeftModel) else backbone
    assert isinstance(model, PreTrainedModel)
    return model
