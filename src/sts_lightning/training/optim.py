"""Optimiser and learning-rate schedule."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from torch import nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LRScheduler

from sts_lightning.core.choices import Schedule
from sts_lightning.core.errors import ConfigError

NO_DECAY = ("bias", "log_scale")
"""Name endings of parameters that weight decay leaves alone, as it does those of norms."""


def make_optimizer(
    module: nn.Module,
    lr: float,
    weight_decay: float,
    betas: Sequence[float],
    eps: float,
    fused: bool,
    layer_decay: float = 1.0,
    decay_embeddings: bool = True,
    head_lr: float | None = None,
) -> AdamW:
    """Build AdamW for the trainable parameters; biases and norms have no weight decay.

    With ``layer_decay`` below 1 the rate falls from the last transformer layer to the first: layer l of L
    (from 0) trains at lr * layer_decay^(L - 1 - l), the embeddings below it at lr * layer_decay^L, heads
    at lr or at ``head_lr``.

    Args:
        module: The module to train.
        lr: Peak learning rate.
        weight_decay: Decoupled weight decay.
        betas: Decay rates of the two moments.
        eps: Constant added to the square root of the second moment.
        fused: Whether to update in one pass over parameters, gradients and moments; not for float16 autocast,
            whose scaled gradients a fused optimiser unscales only after clipping.
        layer_decay: Factor of the learning rate from one layer to the layer below, in (0, 1].
        decay_embeddings: Whether ``layer_decay`` applies to the embeddings; STS-Regression's code trains them
            at the full rate.
        head_lr: Peak learning rate of the loss head; ``lr`` by default.

    Raises:
        ConfigError: ``layer_decay`` is set for a model whose layers are unknown.
    """
    trained = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    depths = layer_depths(module)
    embeddings, norms = _embeddings(module), _norms(module)
    if layer_decay < 1 and not depths:
        raise ConfigError(
            "optim.layer_decay: the parameters of this model do not name their layers.",
            key="optim.layer_decay",
        )
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in trained.items():
        depth = depths.get(name, 0)
        if name not in depths and name in embeddings and decay_embeddings:
            depth = max(depths.values(), default=0) + 1
        rate = lr * layer_decay**depth
        if head_lr is not None and name.startswith("loss."):
            rate = head_lr
        decay = 0.0 if name.endswith(NO_DECAY) or name in norms else weight_decay
        groups.setdefault((rate, decay), []).append(parameter)
    return AdamW(
        [{"params": members, "lr": rate, "weight_decay": decay} for (rate, decay), members in groups.items()],
        lr=lr,
        betas=(betas[0], betas[1]),
        eps=eps,
        fused=fused,
    )


_LAYER = re.compile(r"\.(?:layers?|h|blocks?)\.(\d+)\.")


def _is_above(module: nn.Module, name: str) -> bool:
    """Return whether a name is that of a part above the encoder (`AuxiliaryModel.above`)."""
    above = getattr(getattr(module, "auxiliary", None), "above", None)
    return above is not None and name.startswith(f"auxiliary.{above}.")


def layer_depths(module: nn.Module) -> dict[str, int]:
    """Return the number of transformer layers above each parameter of a layer, by parameter name."""
    layers = {
        name: int(match[1])  # of the outermost layer: T5's blocks have layers themselves
        for name, _ in module.named_parameters()
        if not _is_above(module, name) and (match := _LAYER.search(name))
    }
    top = max(layers.values(), default=0)
    return {name: top - layer for name, layer in layers.items()}


def _embeddings(module: nn.Module) -> set[str]:
    """Return the names of parameters below the layers: tables of words and positions, and their norm."""
    tables = {
        f"{path}.{name}"
        for path, part in module.named_modules()
        if isinstance(part, nn.Embedding) and not _is_above(module, path)
        for name, _ in part.named_parameters(recurse=False)
    }
    return tables | {name for name, _ in module.named_parameters() if ".embeddings." in name}


def _norms(module: nn.Module) -> set[str]:
    """Return the names of the parameters of layer norms, RMS norms and the like."""
    return {
        f"{path}.{name}"
        for path, part in module.named_modules()
        if "norm" in type(part).__name__.lower()
        for name, _ in part.named_parameters(recurse=False)
    }


def check_warmup(warmup: float, total_steps: int) -> int:
    """Compute the number of warm-up steps.

    Args:
        warmup: Number of steps if at least 1, else a fraction of ``total_steps``.
        total_steps: Optimiser steps of the whole run.

    Raises:
        ConfigError: The warm-up is longer than the run.
    """
    steps = int(warmup) if warmup >= 1 else round(warmup * total_steps)
    if steps > total_steps:
        raise ConfigError(
            f"optim.warmup={warmup:g} is longer than the run of {total_steps} steps.", key="optim.warmup"
        )
    return steps


def make_schedule(
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    warmup: float,
    total_steps: int,
    stretch: float = 1.0,
) -> LRScheduler:
    """Build a schedule of warm-up, then decay to zero (linear, cosine) or a constant rate.

    STS-Regression's code computes its schedules for more steps than it makes: `twice as many
    <https://github.com/ZBWpro/STS-Regression/blob/02bed715c24d14a74ecbf7dc5b5a028d7470e6e7/code/tune-jina-nomic.py#L111-L113>`_
    with its two GPUs. The warm-up of 20 % then takes 40 % of the run, and the last rate is 62.5 % of the
    peak: ``stretch=2``.

    Args:
        optimizer: The optimiser whose learning rates are scheduled.
        schedule: Course of the learning rate after the warm-up.
        warmup: Number of steps if at least 1, else a fraction of ``total_steps``.
        total_steps: Optimiser steps of the whole run.
        stretch: Steps of the schedule, as a multiple of ``total_steps``.
    """
    schedule_steps = round(stretch * total_steps)
    warmup_steps = check_warmup(warmup, schedule_steps)
    from transformers import get_scheduler  # imports peft, for seconds: data and model are checked before

    scheduler: LRScheduler = get_scheduler(
        schedule, optimizer, num_warmup_steps=warmup_steps, num_training_steps=schedule_steps
    )
    return scheduler
