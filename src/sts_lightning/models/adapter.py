"""peft adapters around a backbone."""

from __future__ import annotations

import copy
import inspect
import math
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from peft import (
    PeftConfig,
    PeftModel,
    PeftType,
    PrefixEncoder,
    get_peft_model,
    get_peft_model_state_dict,
)
from peft.tuners.lora import LoraLayer
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from sts_lightning.errors import ConfigError
from sts_lightning.models.lora_dropout import save_inputs_once
from sts_lightning.models.quantization import is_quantised

PARTS_OF_WEIGHTS = re.compile(r"olora|pissa(_niter_\d+)?")
"""LoRA's initial values that are a part of the base weights, which is subtracted from them."""

PATH = "base_model.model."
"""Prefix of the names of a backbone's modules in peft's model."""

ADAPTED = {"base_layer", "modules_to_save", "original_module"}
"""Names of modules within an adapted one."""

NOT_REPEATABLE = {
    "corda": "needs covariances of activations, which a run does not compute",
    "eva": "needs activations, which a run does not compute",
    "loftq": "needs a GPU each time the run is loaded, since peft quantises the base weights on one only",
    "lora_ga": "needs gradients, which a run does not compute",
    "mica": "draws a factor that is frozen, and thus in no checkpoint",
}
"""LoRA's initial values with which a run could not be loaded again, or would be another method."""


def add_adapter(backbone: PreTrainedModel, adapter: PeftConfig) -> PeftModel:
    """Wrap a backbone in a peft adapter, and freeze its own weights.

    Raises:
        ValueError: The adapter does not fit the backbone.
        ConfigError: A run with the adapter could not be loaded again.
    """
    name = type(backbone).__name__
    if not isinstance(adapter, PeftConfig):
        raise ValueError(
            f"adapter must have a _target_ among peft's configurations, as peft.LoraConfig, got {adapter}."
        )
    check_adapter(adapter)
    if changes_base(adapter) and any(map(is_quantised, backbone.modules())):
        raise _no_such_start(adapter, "changes the base weights, which must not be quantised")
    takes_prefix = "past_key_values" in inspect.signature(backbone.forward).parameters
    if adapter.peft_type == PeftType.PREFIX_TUNING and not takes_prefix:
        raise ValueError(
            f"adapter does not fit {name}: it takes no past_key_values, so a trained prefix would have "
            "no effect. Choose another adapter, such as LoRA."
        )
    try:
        with warnings.catch_warnings(), _repeated_draws(adapter):
            warnings.filterwarnings("ignore", ".*is_gradient_checkpointing.*")  # peft asks transformers
            whole = get_peft_model(
                backbone,
                copy.deepcopy(adapter),  # peft changes the settings
                low_cpu_mem_usage=backbone.device.type == "meta",  # a model without weights stays one
            )
    except (ValueError, TypeError, AttributeError, RuntimeError, MemoryError) as error:
        if "lora_dropout != 0" in str(error):  # peft's word for stacked matrices
            raise ValueError(
                f"adapter.lora_dropout must be 0 for {name}: peft adapts its stacked experts without dropout."
            ) from error
        raise ValueError(f"adapter does not fit {name}: {error}") from error
    assert isinstance(whole, PeftModel)
    _check_table(whole)
    repeat_layer_types(backbone, adapter)
    if changes_base(adapter):
        _check_rank(whole, adapter)
        _check_orientation(whole, adapter)
    if adapter.peft_type == PeftType.PREFIX_TUNING:
        _scale_prefix(whole, backbone)
        _drop_prefix(whole, backbone)
    if changes_base(adapter) and backbone.device.type != "meta":
        subtracted: Any = whole
        subtracted.initial_factors = {  # no buffers: they are in the way on a GPU
            key: value.detach().to("cpu", copy=True)
            for key, value in get_peft_model_state_dict(whole, save_embedding_layers=False).items()
        }
    save_inputs_once(whole)
    return whole


def check_adapter(adapter: PeftConfig) -> None:
    """Reject settings that peft takes, but that have no effect here or cannot be loaded again.

    Raises:
        ValueError: A number under which an adapter changes nothing.
        ConfigError: A kind of adapter that a run would not apply as it is meant, or initial values among
            `NOT_REPEATABLE`.
    """
    kind = type(adapter).__name__
    if adapter.is_prompt_learning and adapter.peft_type != PeftType.PREFIX_TUNING:
        raise _not_applied(
            kind, "puts vectors before the sentence, so that pooling would read other positions"
        )
    if adapter.peft_type == PeftType.ADALORA:
        raise _not_applied(
            kind, "needs a loss term and a step of its own, without which no rank is allocated"
        )
    initial = str(getattr(adapter, "init_lora_weights", None)).lower()
    start = next((start for start in NOT_REPEATABLE if initial.startswith(start)), None)
    if start is not None:
        raise _no_such_start(adapter, NOT_REPEATABLE[start])
    bounds = {
        "lora_alpha": (0, math.inf),  # scales the adapter; with 0 it has neither effect nor gradient
        "lora_dropout": (-math.ulp(0), 1),
        "num_virtual_tokens": (0, math.inf),
    }
    for key, (above, below) in bounds.items():
        value = getattr(adapter, key, None)
        if value is not None and not above < value < below:
            raise ValueError(f"adapter.{key} must lie above {max(0, above)} and below {below}, got {value}.")


def _not_applied(kind: str, why: str) -> ConfigError:
    hint = "Choose another adapter, such as peft.LoraConfig or peft.PrefixTuningConfig."
    return ConfigError(f"model.adapter: peft.{kind} {why}.", key="model.adapter", hint=hint)


def _check_rank(whole: PeftModel, adapter: PeftConfig) -> None:
    """Reject a part of a matrix that has a larger rank than the matrix; peft would silently cut it.

    Raises:
        ConfigError: See above.
    """
    layers: dict[str, Any] = {
        name: module for name, module in whole.named_modules() if isinstance(module, LoraLayer)
    }
    sides = {
        name: (layer.r["default"], min(layer.in_features, layer.out_features))
        for name, layer in layers.items()
    }
    name, (rank, side) = max(sides.items(), key=lambda item: item[1][0] - item[1][1])
    if rank > side:
        initial = getattr(adapter, "init_lora_weights", None)
        raise ConfigError(
            f"model.adapter.r={rank} exceeds the smaller side ({side}) of {name.removeprefix(PATH)}, a part "
            f"of which init_lora_weights={initial} takes.",
            key="model.adapter.r",
            hint=f"Lower it to at most {side}, or give that matrix a rank of its own by "
            "model.adapter.rank_pattern.",
        )


def _check_table(whole: PeftModel) -> None:
    """Reject an adapter of embeddings that are no part of the computation, as T5's ``shared``.

    It holds the weights of ``encoder.embed_tokens``, which alone looks up the tokens of a sentence.

    Raises:
        ConfigError: See above.
    """
    table: Any = whole.get_input_embeddings()
    if not any(weight.requires_grad for weight in table.parameters()):
        return
    held = set(map(id, table.parameters()))
    names = {id(module): name.removeprefix(PATH) for name, module in whole.named_modules()}
    for module in whole.modules():
        if not isinstance(module, nn.Embedding) or id(module.weight) not in held:
            continue
        used = names[id(module)]
        if not ADAPTED & set(used.split(".")):
            raise ConfigError(
                f"model.adapter: {names[id(table)]} has the same weights as {used}, which reads the tokens, "
                "so its adapter would not be used in evaluation.",
                key="model.adapter",
                hint=f"Name {used.rpartition('.')[2]} instead.",
            )


def changes_base(adapter: PeftConfig) -> bool:
    """Return whether an adapter subtracts its initial values from the base weights.

    A checkpoint holds the adapter only. When it is loaded, the same part is subtracted again: truncated
    decompositions are unique, and `_repeated_draws` repeats the draws of approximate ones.
    """
    initial = getattr(adapter, "init_lora_weights", None)
    return isinstance(initial, str) and PARTS_OF_WEIGHTS.fullmatch(initial.lower()) is not None


def _check_orientation(whole: PeftModel, adapter: PeftConfig) -> None:
    """Reject OLoRA on GPT-2's ``Conv1D``, whose matrix is the transposed one, which the library overlooks.

    Raises:
        ConfigError: See above.
    """
    initial = str(getattr(adapter, "init_lora_weights", None)).lower()
    layers = (module.get_base_layer() for module in whole.modules() if isinstance(module, LoraLayer))
    if initial == "olora" and any(isinstance(layer, Conv1D) for layer in layers):
        raise _no_such_start(adapter, "does not go with the transposed matrices (Conv1D) of this model")


def repeat_layer_types(backbone: PreTrainedModel, adapter: Any) -> None:
    """Repeat the kinds of attention of a model's layers as ``layer_replication`` repeats its layers."""
    repeated = getattr(adapter, "layer_replication", None)
    types = getattr(backbone.config, "layer_types", None)
    if repeated and types:
        backbone.config.layer_types = [types[layer] for first, end in repeated for layer in range(first, end)]


def separate_replicas(module: nn.Module) -> None:
    """Give each layer that ``layer_replication`` repeats weights of its own, so that it can be merged into.

    Embeddings may share their weights for other reasons, and keep them.
    """
    seen = set()
    for part in list(module.modules()):
        for name, weight in part.named_parameters(recurse=False):
            if id(weight) in seen and not isinstance(part, nn.Embedding):
                setattr(part, name, nn.Parameter(weight.detach().clone(), weight.requires_grad))
            seen.add(id(weight))


def initial_factors(whole: PeftModel) -> dict[str, Tensor]:
    """Return what an adapter that `changes_base` began with, by the names of its weights in peft's files."""
    holder: Any = whole
    factors: dict[str, Tensor] = holder.initial_factors
    return factors


def _no_such_start(adapter: PeftConfig, reason: str) -> ConfigError:
    initial = getattr(adapter, "init_lora_weights", None)
    return ConfigError(
        f"model.adapter.init_lora_weights={initial} {reason}.",
        key="model.adapter.init_lora_weights",
        hint="Leave it out for the usual start of LoRA; pissa starts from the base weights and needs "
        "quantization=none.",
    )


@contextmanager
def _repeated_draws(adapter: PeftConfig) -> Iterator[None]:
    """Draw what is subtracted from the base weights from a fixed seed, not from the run's."""
    if not changes_base(adapter):
        yield
        return
    with torch.random.fork_rng(devices=[]):  # models are loaded on the CPU
        torch.default_generator.manual_seed(0)
        yield


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
