"""Adapters of peft around a backbone."""

from __future__ import annotations

import copy
import inspect
import warnings

from peft import PeftConfig, PeftModel, PeftType, get_peft_model
from transformers import PreTrainedModel

from sts_lightning.errors import ConfigError


def adapted(backbone: PreTrainedModel, adapter: PeftConfig) -> PeftModel:
    """The backbone with a peft adapter, its own weights frozen.

    Raises:
        ConfigError: The adapter does not fit the backbone.
    """
    name = type(backbone).__name__
    takes_prefix = "past_key_values" in inspect.signature(backbone.forward).parameters
    if adapter.peft_type == PeftType.PREFIX_TUNING and not takes_prefix:
        raise ConfigError(
            f"model.adapter does not fit {name}: it takes no past_key_values, so a trained prefix would have "
            "no effect. Choose another adapter, such as LoRA."
        )
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*is_gradient_checkpointing.*")  # peft asks transformers
            whole = get_peft_model(backbone, copy.deepcopy(adapter))  # peft fills in its configuration
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError(f"model.adapter does not fit {name}: {error}") from error
    assert isinstance(whole, PeftModel)
    return whole
