"""Optimiser and learning-rate schedule."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LRScheduler
from transformers import get_scheduler

from sts_lightning.errors import ConfigError

Schedule = Literal["linear", "cosine", "constant_with_warmup"]

NO_DECAY = ("bias", "norm.weight", "Norm.weight")
"""Name endings of parameters that weight decay leaves alone."""


def make_optimizer(
    module: nn.Module, lr: float, weight_decay: float, betas: tuple[float, float], eps: float, fused: bool
) -> AdamW:
    """AdamW over the parameters that train; biases and layer norms do not decay.

    Args:
        module: Whose parameters.
        lr: Peak learning rate.
        weight_decay: Decoupled decay.
        betas: Decay of the moments.
        eps: Added to the root of the second moment.
        fused: One pass over parameters, gradients and moments instead of a dozen; not with float16 autocast,
            whose scaled gradients a fused optimiser unscales only after clipping.

    Raises:
        ConfigError: Nothing trains, or a value is out of range.
    """
    if lr <= 0:
        raise ConfigError(f"optim.lr must be positive, got {lr}.")
    trained = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    if not trained:
        raise ConfigError("no parameter of the model trains.")
    decayed = [parameter for name, parameter in trained.items() if not name.endswith(NO_DECAY)]
    others = [parameter for name, parameter in trained.items() if name.endswith(NO_DECAY)]
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    return AdamW(groups, lr=lr, betas=betas, eps=eps, fused=fused)


def make_schedule(
    optimizer: torch.optim.Optimizer, schedule: Schedule, warmup: float, total_steps: int
) -> LRScheduler:
    """Warm-up, then decay to zero (linear, cosine) or a constant rate.

    Args:
        optimizer: What it drives.
        schedule: Its shape.
        warmup: Steps if at least 1, else a share of ``total_steps``.
        total_steps: Optimiser steps of the whole run.
    """
    steps = int(warmup) if warmup >= 1 else round(warmup * total_steps)
    if steps > total_steps:
        raise ConfigError(f"optim.warmup={warmup:g} is longer than the run of {total_steps} steps.")
    scheduler: LRScheduler = get_scheduler(
        schedule, optimizer, num_warmup_steps=steps, num_training_steps=total_steps
    )
    return scheduler
