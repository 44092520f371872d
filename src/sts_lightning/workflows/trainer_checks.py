"""Checks of the group ``trainer``: ranges, hardware, and further arguments of Lightning's Trainer."""

from __future__ import annotations

import inspect
from typing import Any

import lightning.pytorch as pl
from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.keys import suggest, unknown_key
from sts_lightning.config.machine import Machine, cuda_devices
from sts_lightning.console import quiet_lightning
from sts_lightning.errors import ConfigError
from sts_lightning.training.trainer import EXTRA_ERRORS

OWN = {
    "max_epochs": "set trainer.max_epochs",
    "max_steps": "set trainer.max_steps",
    "accelerator": "set trainer.accelerator",
    "devices": "set trainer.devices",
    "num_nodes": "set trainer.num_nodes",
    "precision": "set precision",
    "gradient_clip_val": "set trainer.gradient_clip_val",
    "gradient_clip_algorithm": "trainer.gradient_clip_val bounds the norm of the gradient",
    "reload_dataloaders_every_n_epochs": "the data are read once, and their order is another in each epoch",
    "log_every_n_steps": "set trainer.log_every_n_steps",
    "deterministic": "set trainer.deterministic",
    "limit_train_batches": "set trainer.limit_train_batches",
    "val_check_interval": "set trainer.val_every",
    "check_val_every_n_epoch": "set trainer.val_every",
    "logger": "set logger",
    "callbacks": "set callbacks",
    "default_root_dir": "set hydra.run.dir",
    "strategy": "set trainer.devices",
    "plugins": "checkpoints are written by a plugin of the framework",
    "num_sanity_val_steps": "the untrained model is evaluated on all dev pairs",
    "enable_model_summary": "a run has no model summary",
    "enable_progress_bar": "a terminal has a progress bar, a file has none",
    "use_distributed_sampler": "the framework divides the batches among processes",
    "enable_checkpointing": "every run needs its checkpoints",
    "limit_test_batches": "test tasks are scored whole; evaluation.final=false leaves them out",
    "limit_predict_batches": "sentences are embedded by eval.py and encode",
    "limit_val_batches": "weights are selected by all dev pairs",
    "overfit_batches": "set trainer.limit_train_batches",
    "fast_dev_run": "it leaves out the checkpoints; set trainer.max_steps instead",
    "barebones": "it leaves out the checkpoints",
    "accumulate_grad_batches": (
        "the loss of several small batches is not that of a large one; raise data.batch_size instead "
        "(trainer.chunk_tokens bounds the tokens encoded at a time)"
    ),
}
"""Arguments of Lightning's Trainer that the framework sets itself, and what to do instead."""


def check_trainer(trainer: DictConfig, machine: Machine, batch_size: int) -> None:
    """Reject settings of the group ``trainer`` that are out of range, or that this machine cannot run.

    Args:
        trainer: The group ``trainer``.
        machine: The hardware, and the settings that depend on it.
        batch_size: Number of examples per batch.

    Raises:
        ConfigError: A setting is rejected; the message names it.
    """
    check_settings(trainer, batch_size)
    if machine.devices == -1 and machine.accelerator != "gpu":
        raise ConfigError(
            "trainer.devices=-1 means all GPUs; without any give the number of processes.",
            key="trainer.devices",
        )
    if machine.accelerator == "gpu" and machine.devices > cuda_devices():
        raise ConfigError(
            f"trainer.devices={machine.devices}, but {cuda_devices()} CUDA devices are visible.",
            key="trainer.devices",
        )
    if machine.accelerator != "gpu" and machine.precision == "16-mixed":
        raise ConfigError(
            "precision=16-mixed needs a CUDA device; elsewhere use bf16-mixed or 32-true.", key="precision"
        )


def check_settings(trainer: DictConfig, batch_size: int) -> None:
    """Reject settings of the group ``trainer`` that no machine can run.

    Args:
        trainer: The group ``trainer``.
        batch_size: Number of examples per batch.

    Raises:
        ConfigError: A setting is rejected; the message names it.
    """
    micro = trainer.micro_batch_size
    divides = type(micro) is int and micro >= 1 and batch_size % micro == 0  # True, too, is an int
    if micro not in (None, "auto") and not divides:
        divisors = [str(size) for size in range(1, batch_size) if batch_size % size == 0]
        raise ConfigError(
            f"trainer.micro_batch_size={micro} does not divide data.batch_size={batch_size}; "
            f"choose among {', '.join(divisors)}, or auto.",
            key="trainer.micro_batch_size",
        )
    check_ranges(trainer)
    check_extra(trainer.extra)


def check_ranges(trainer: DictConfig) -> None:
    """Reject numbers of the group ``trainer`` that are out of range.

    Raises:
        ConfigError: One of them; the message names the setting.
    """
    every, clip, limit = trainer.val_every, trainer.gradient_clip_val, trainer.limit_train_batches
    chunks = trainer.chunk_tokens
    epochs, steps = trainer.max_epochs, trainer.max_steps
    bounds = {
        "devices": (trainer.devices == -1 or trainer.devices >= 1, "be positive, or -1 for all"),
        "num_nodes": (trainer.num_nodes >= 1, "be positive"),
        "max_epochs": (epochs in (None, -1) or epochs >= 1, "be at least 1, or null: no limit"),
        "max_steps": (steps in (None, -1) or steps >= 1, "be at least 1, or null: no limit"),
        "limit_train_batches": (limit is None or limit >= 1, "be at least 1, or null: all batches"),
        "val_every": (
            every is None or 0 < every < 1 or (every >= 1 and every % 1 == 0),
            "be a fraction of an epoch below 1, a whole number of steps, or null: once per epoch",
        ),
        # PyTorch multiplies a gradient that is too long by limit / norm: a negative limit would reverse it.
        "gradient_clip_val": (clip is None or clip > 0, "be positive, or null: no clipping"),
        "save_every": (trainer.save_every >= 1, "be at least 1"),
        "keep_every": (trainer.keep_every is None or trainer.keep_every >= 1, "be at least 1, or null: none"),
        "log_every_n_steps": (trainer.log_every_n_steps >= 1, "be at least 1"),
        "chunk_tokens": (chunks == "auto" or (type(chunks) is int and chunks >= 1), "be at least 1, or auto"),
    }
    for key, (holds, what) in bounds.items():
        if not holds:
            raise ConfigError(f"trainer.{key} must {what}, got {trainer[key]}.", key=f"trainer.{key}")
    if epochs == -1 and steps in (None, -1):
        raise ConfigError(
            "trainer.max_epochs=-1 without trainer.max_steps: the run would have no end.",
            key="trainer.max_steps",
        )


def check_extra(extra: DictConfig) -> None:
    """Reject arguments that the Trainer does not have, that the framework sets, or that the Trainer rejects.

    Args:
        extra: The group ``trainer.extra``.

    Raises:
        ConfigError: One of them.
    """
    known = [name for name in inspect.signature(pl.Trainer.__init__).parameters if name not in ("self", *OWN)]
    for key in map(str, extra):
        if key in OWN:
            raise ConfigError(f"trainer.extra.{key} cannot be set: {OWN[key]}.", key=f"trainer.extra.{key}")
        if key not in known:
            raise unknown_key(f"trainer.extra.{key}", suggest(key, known))
    if not extra:
        return
    arguments: Any = OmegaConf.to_container(extra, resolve=True)
    for name in ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"):
        arguments[name] = False
    try:
        with quiet_lightning():
            pl.Trainer(accelerator="cpu", devices=1, **arguments)
    except EXTRA_ERRORS as error:
        raise ConfigError(f"trainer.extra: {error}", key="trainer.extra") from error
