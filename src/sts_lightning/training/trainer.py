"""Length of a run, and Lightning's Trainer for it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import lightning.pytorch as pl
import torch.utils.deterministic
from lightning.fabric.plugins.environments.cluster_environment import ClusterEnvironment
from lightning.fabric.plugins.environments.lightning import LightningEnvironment
from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import Callback, RichProgressBar, WeightAveraging
from lightning.pytorch.loggers import Logger
from lightning.pytorch.profilers import AdvancedProfiler, Profiler, PyTorchProfiler, SimpleProfiler
from lightning.pytorch.strategies import DDPStrategy
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from sts_lightning.core.errors import ConfigError
from sts_lightning.core.hardware import Machine
from sts_lightning.core.signals import PARENT
from sts_lightning.runs.folder import RunFolder
from sts_lightning.training.callbacks.checkpoints import (
    AtomicCheckpointIO,
    BestCheckpoint,
    KeptWeights,
    RunRecorder,
)
from sts_lightning.training.callbacks.progress import RandomState, Throughput

DEFAULT_EPOCHS = 2
"""Length of a run for which neither ``trainer.max_epochs`` nor ``trainer.max_steps`` is set."""

PROFILERS: dict[Any, Callable[..., Profiler]] = {
    "simple": SimpleProfiler,
    "advanced": AdvancedProfiler,
    "pytorch": PyTorchProfiler,
}
"""Lightning's profilers by the names of ``trainer.extra.profiler``; they write to the run folder."""


@dataclass(frozen=True)
class StepCount:
    """Length of a run in optimiser steps.

    Attributes:
        epoch_steps: Steps per epoch.
        total_steps: Steps of the whole run.
        val_steps: Steps between dev evaluations.
        shortened: Whether ``trainer.max_epochs`` ends it before ``trainer.max_steps``.
    """

    epoch_steps: int
    total_steps: int
    val_steps: int
    shortened: bool = False

    @property
    def epochs(self) -> int:
        """Epochs of the whole run, a last one that is not complete included."""
        return math.ceil(self.total_steps / self.epoch_steps)


def count_steps(trainer: DictConfig, available_batches: int) -> StepCount:
    """Compute the length of a run: of the limits on epochs and steps those that are set, the nearer one.

    Args:
        trainer: The group ``trainer``.
        available_batches: Number of batches of the data per epoch.

    Raises:
        ConfigError: The run would have no step.
    """
    limit = trainer.limit_train_batches
    epoch_steps = available_batches if limit is None else min(limit, available_batches)
    epochs, steps = (None if value == -1 else value for value in (trainer.max_epochs, trainer.max_steps))
    if trainer.max_epochs == -1 and steps is None:
        raise ConfigError(
            "trainer.max_epochs=-1 without trainer.max_steps: the run would have no end.",
            key="trainer.max_steps",
        )
    if epochs is None and steps is None:
        epochs = DEFAULT_EPOCHS
    limits = (None if epochs is None else epoch_steps * epochs, steps)
    total = min(limit for limit in limits if limit is not None)
    if total < 1:
        raise ConfigError(
            "trainer.max_epochs, trainer.max_steps and trainer.limit_train_batches leave no step to train.",
            key="trainer.max_steps",
        )
    every = epoch_steps if trainer.val_every is None else trainer.val_every
    # Rounded down, as Lightning does: 14 of 27 steps would leave out the second of two evaluations.
    every = int(every * epoch_steps if every < 1 else every)
    shortened = steps is not None and total < steps
    return StepCount(epoch_steps, total, min(max(1, every), total), shortened)


def make_trainer(
    cfg: DictConfig,
    machine: Machine,
    steps: StepCount,
    run: RunFolder,
    loggers: Sequence[Logger],
    callbacks: Sequence[Callback],
    resume_command: str,
    monitor: str,
    partly_used: bool = False,
) -> pl.Trainer:
    """Build Lightning's Trainer for a run folder.

    Args:
        cfg: The group ``trainer``.
        machine: The hardware, and the settings that depend on it.
        steps: Length of the run.
        run: The run folder.
        loggers: Destinations of metrics.
        callbacks: Callbacks in addition to those of every run.
        resume_command: The command that resumes the run, for messages.
        monitor: Metric by which checkpoints are selected.
        partly_used: Whether some trainable weights do not contribute to the vectors.
    """
    log_every = min(cfg.log_every_n_steps, steps.epoch_steps)
    # Dev scores are those of the averaged weights, which only a complete checkpoint contains.
    averages = any(isinstance(callback, WeightAveraging) for callback in callbacks)
    best = BestCheckpoint(run, monitor, weights_only=not averages, untuned=cfg.select_untuned)
    last = RunRecorder(run, cfg.save_every, log_every, resume_command)
    always: list[Callback] = [RandomState(), Throughput(), best, last]
    if cfg.keep_every is not None:  # before the last one: a run that resumes from step N has kept it
        always.insert(-1, KeptWeights(run, cfg.keep_every))
    in_terminal = Console(stderr=False).is_terminal
    if in_terminal:
        always.append(RichProgressBar(leave=True))
    strategy: str | DDPStrategy = "auto"
    if cfg.devices != 1 or cfg.num_nodes != 1:
        strategy = DDPStrategy(find_unused_parameters=partly_used)
    extra: Any = OmegaConf.to_container(cfg.extra, resolve=True)
    if (profiler := extra.get("profiler")) in PROFILERS:  # by its name alone it would write to the log only
        extra["profiler"] = PROFILERS[profiler](dirpath=run.path, filename="profile")
    # Deterministic algorithms fill new memory with NaN, which takes time; nothing here reads it before.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # a property
    try:
        return pl.Trainer(
            plugins=[AtomicCheckpointIO(), *_environment()],
            accelerator=machine.accelerator,
            devices=machine.devices,
            num_nodes=cfg.num_nodes,
            strategy=strategy,
            precision=machine.precision,  # type: ignore[arg-type]  # a string of the configuration
            max_steps=steps.total_steps,
            max_epochs=steps.epochs,
            val_check_interval=steps.val_steps,
            check_val_every_n_epoch=None,
            num_sanity_val_steps=0,
            gradient_clip_val=cfg.gradient_clip_val,
            log_every_n_steps=log_every,
            deterministic=machine.deterministic,  # type: ignore[arg-type]  # likewise
            default_root_dir=run.path,
            logger=list(loggers),
            callbacks=[*always, *callbacks],
            enable_model_summary=False,
            enable_progress_bar=in_terminal,
            use_distributed_sampler=False,
            **extra,
        )
    except (AttributeError, TypeError, ValueError, MisconfigurationException) as error:  # of an argument
        raise ConfigError(f"trainer.extra: {error}", key="trainer.extra") from error


def _environment() -> list[ClusterEnvironment]:
    """Return how the processes of a run find each other, where SLURM would lead Lightning astray.

    Lightning's own handler of SLURM's announcement saves in the middle of a step, to another file; a job of a
    sweep is one task of SLURM, from which Lightning starts the processes of several devices.
    """
    if TorchElasticEnvironment.detect() or not SLURMEnvironment.detect():
        return []
    return [LightningEnvironment() if PARENT in os.environ else SLURMEnvironment(auto_requeue=False)]
