"""The Trainer of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback, ModelCheckpoint, RichProgressBar, WeightAveraging
from lightning.pytorch.loggers import Logger
from lightning.pytorch.strategies import DDPStrategy
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from sts_lightning.config.machine import Machine, cuda_devices
from sts_lightning.errors import ConfigError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.training.callbacks import DevReport, LastCheckpoint, RandomState, Throughput
from sts_lightning.training.checkpoint_io import AtomicCheckpointIO
from sts_lightning.training.module import MONITOR
from sts_lightning.workflows.trainer_checks import EXTRA_ERRORS, check_extra, check_ranges


@dataclass(frozen=True)
class Plan:
    """How long a run is, in optimiser steps.

    Attributes:
        epoch_steps: Steps in an epoch.
        total_steps: Steps in the run.
        val_steps: Steps between dev evaluations.
    """

    epoch_steps: int
    total_steps: int
    val_steps: int


def make_plan(trainer: DictConfig, available_batches: int) -> Plan:
    """The steps of a run from the trainer's configuration.

    Args:
        trainer: The group ``trainer``.
        available_batches: Batches that the data gives in an epoch.

    Raises:
        ConfigError: The run would have no step.
    """
    limit = trainer.limit_train_batches
    epoch_steps = available_batches if limit is None else min(limit, available_batches)
    total = epoch_steps * trainer.max_epochs if trainer.max_epochs >= 0 else trainer.max_steps
    if trainer.max_steps >= 0:
        total = min(total, trainer.max_steps)
    if total < 1:
        raise ConfigError(
            "trainer.max_epochs, trainer.max_steps and trainer.limit_train_batches leave no step to train."
        )
    every = trainer.val_every * epoch_steps if trainer.val_every <= 1 else trainer.val_every
    return Plan(epoch_steps, total, min(max(1, round(every)), total))


def check_trainer(trainer: DictConfig, machine: Machine, batch_size: int) -> None:
    """Reject settings that are out of range, that this machine cannot run, or that do not fit together.

    Args:
        trainer: The group ``trainer``.
        machine: What the run trains on.
        batch_size: Examples in a batch.

    Raises:
        ConfigError: One of them.
    """
    if trainer.num_nodes < 1 or trainer.devices < -1 or trainer.devices == 0:
        raise ConfigError(
            "trainer.devices must be positive, or -1 for all; trainer.num_nodes must be positive."
        )
    if machine.devices == -1 and machine.accelerator != "gpu":
        raise ConfigError("trainer.devices=-1 means all GPUs; without any give the number of processes.")
    if machine.accelerator == "gpu" and machine.devices > cuda_devices():
        raise ConfigError(
            f"trainer.devices={machine.devices}, but {cuda_devices()} CUDA devices are visible."
        )
    micro = trainer.micro_batch_size
    divides = type(micro) is int and micro >= 1 and batch_size % micro == 0  # True, too, is an int
    if micro not in (None, "auto") and not divides:
        divisors = [str(size) for size in range(1, batch_size) if batch_size % size == 0]
        raise ConfigError(
            f"trainer.micro_batch_size={micro} does not divide data.batch_size={batch_size}; "
            f"choose among {', '.join(divisors)}, or auto."
        )
    if machine.accelerator != "gpu" and machine.precision == "16-mixed":
        raise ConfigError("precision=16-mixed needs a CUDA device; elsewhere use bf16-mixed or 32-true.")
    check_ranges(trainer)
    check_extra(trainer.extra)


def several(trainer: DictConfig) -> bool:
    """Whether the configuration asks for several processes."""
    return bool(trainer.devices != 1 or trainer.num_nodes != 1)


def make_trainer(
    cfg: DictConfig,
    machine: Machine,
    plan: Plan,
    run: RunFolder,
    loggers: Sequence[Logger],
    callbacks: Sequence[Callback],
    resume_command: str,
    partly_used: bool = False,
) -> pl.Trainer:
    """Lightning's Trainer for a run folder.

    Args:
        cfg: The group ``trainer``.
        machine: What the run trains on.
        plan: Steps of the run.
        run: The run folder.
        loggers: Where metrics go.
        callbacks: The user's callbacks, besides those that every run has.
        resume_command: What to tell the user who stops the run.
        partly_used: Whether some trained weights have no part in the vectors.
    """
    # Averaged weights, which are what was scored, get into a whole checkpoint only.
    averages = any(isinstance(callback, WeightAveraging) for callback in callbacks)
    best = ModelCheckpoint(
        run.checkpoints,
        run.checkpoint("best").stem,
        monitor=MONITOR,
        mode="max",
        save_weights_only=not averages,
        enable_version_counter=False,
    )
    log_every = min(cfg.log_every_n_steps, plan.epoch_steps)
    last = LastCheckpoint(run.checkpoint("last"), cfg.save_every, log_every, resume_command)
    always: list[Callback] = [RandomState(), Throughput(), DevReport(), best, last]
    if Console(stderr=False).is_terminal:
        always.append(RichProgressBar(leave=True))
    extra: Any = OmegaConf.to_container(cfg.extra, resolve=True)
    try:
        return pl.Trainer(
            plugins=[AtomicCheckpointIO()],
            accelerator=machine.accelerator,
            devices=machine.devices,
            num_nodes=cfg.num_nodes,
            strategy=DDPStrategy(find_unused_parameters=partly_used) if several(cfg) else "auto",
            precision=machine.precision,  # type: ignore[arg-type]  # a string of the configuration
            max_steps=plan.total_steps,
            max_epochs=math.ceil(plan.total_steps / plan.epoch_steps),
            val_check_interval=plan.val_steps,
            check_val_every_n_epoch=None,
            num_sanity_val_steps=0,
            gradient_clip_val=cfg.gradient_clip_val,
            log_every_n_steps=log_every,
            deterministic=machine.deterministic,  # type: ignore[arg-type]  # likewise
            default_root_dir=run.path,
            logger=list(loggers),
            callbacks=[*always, *callbacks],
            enable_model_summary=False,
            enable_progress_bar=Console(stderr=False).is_terminal,
            use_distributed_sampler=False,
            **extra,
        )
    except EXTRA_ERRORS as error:
        raise ConfigError(f"trainer.extra: {error}") from error
