"""Everything that can be wrong with a training run, found before weights are loaded or files written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger
from omegaconf import DictConfig

from sts_lightning.config.build import build
from sts_lightning.config.constraints import check_config
from sts_lightning.config.machine import Machine, decide, decided
from sts_lightning.config.trust import check_links
from sts_lightning.data.module import SentenceDataModule
from sts_lightning.errors import CheckpointError
from sts_lightning.regularizers.base import Regularizer
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.lock import is_first_process
from sts_lightning.runs.state import check_free, check_resumable, check_same
from sts_lightning.training.assembly import make_loss
from sts_lightning.training.companion import Companion
from sts_lightning.training.optim import check_optim
from sts_lightning.workflows.fit_checks import (
    check_companion,
    check_extras,
    check_fit,
    check_regularizer,
    check_scores,
    check_views,
    check_wise_ft,
    compares_scores,
)
from sts_lightning.workflows.trainer_checks import check_trainer

TRIAL_SIZES = (65_536, 1.0)
"""Size of an embedding, beyond that of any model, and highest label with which a loss is checked.

The loss that trains is built after the model, of which nothing has been loaded yet.
"""


@dataclass(frozen=True)
class Parts:
    """A training run that can start: its configuration, and the parts that need no weights.

    Attributes:
        run: The run folder.
        cfg: The configuration as composed or stored.
        machine: The hardware, and the settings that depend on it.
        resumed: Whether the run resumes from its last checkpoint.
        again: Whether the folder holds a run without a checkpoint, which starts again.
        first: Whether this is the process of the run that writes the folder.
        data: The data, read and checked.
        loggers: Destinations of metrics.
        callbacks: Callbacks besides those that every run has.
        regularizer: A term that is added to the loss.
        companion: A part that supplies the loss with an argument.
    """

    run: RunFolder
    cfg: DictConfig
    machine: Machine
    resumed: bool
    again: bool
    first: bool
    data: SentenceDataModule
    loggers: Sequence[Logger]
    callbacks: Sequence[Callback]
    regularizer: Regularizer | None
    companion: Companion | None


def validate(run: RunFolder, cfg: DictConfig, resume: bool, callbacks: Sequence[Callback] = ()) -> Parts:
    """Check folder, configuration, machine and data.

    Args:
        run: The run folder, locked by this process.
        cfg: A configuration of the schema `TrainConfig`.
        resume: Whether the run resumes; one without a checkpoint starts again.
        callbacks: Callbacks besides those of the configuration.

    Raises:
        UserError: Something is wrong; the message says what, where and what to do.
    """
    first = is_first_process()
    state = run.state
    if first:
        state = check_resumable(run) if resume else check_free(run)
    again = state == "started"
    if resume or again:
        check_links(run.path)
    if resume and not again:
        check_checkpoints(run)
    cfg = check_config(cfg)
    machine = decide(cfg.trainer)
    check_trainer(cfg.trainer, machine, cfg.data.batch_size)
    built = build_parts(run, cfg)
    if first and again and not resume:
        check_same(run, decided(cfg, machine))
    built.data.setup()
    if built.compares_scores:
        check_scores(str(cfg.loss["_target_"]).rpartition(".")[2], built.data)
    return Parts(
        run,
        cfg,
        machine,
        resume and not again,
        again,
        first,
        built.data,
        built.loggers,
        [*built.callbacks, *callbacks],
        built.regularizer,
        built.companion,
    )


@dataclass(frozen=True)
class Built:
    """What a configuration names, built and checked; the data is not read yet. See `Parts`."""

    data: SentenceDataModule
    loggers: list[Logger]
    callbacks: list[Callback]
    regularizer: Regularizer | None
    companion: Companion | None
    compares_scores: bool


def build_parts(run: RunFolder, cfg: DictConfig) -> Built:
    """Build what needs no weights, and check that it fits together.

    Args:
        run: The run folder, to which nothing is written.
        cfg: A configuration without interpolations.

    Raises:
        ConfigError: Something cannot be built, or does not fit.
    """
    check_optim(cfg.optim)
    data: SentenceDataModule = build("data", cfg.data, SentenceDataModule)
    with torch.random.fork_rng(devices=[]):  # a head draws its start from the global random state
        loss = make_loss(cfg.loss, *TRIAL_SIZES)
    check_fit(loss, data)
    check_views(cfg.prompt, data)
    loggers = [
        build(f"logger.{name}", node, Logger, save_dir=str(run.path)) for name, node in cfg.logger.items()
    ]
    own = [build(f"callbacks.{name}", node, Callback) for name, node in cfg.callbacks.items()]
    regularizer = build("regularizer", cfg.regularizer, Regularizer) if cfg.regularizer else None
    companion = build("companion", cfg.companion, Companion) if cfg.companion else None
    check_regularizer(regularizer, data)
    check_extras(cfg, loss, regularizer, own)
    check_companion(cfg, loss, companion)
    check_wise_ft(cfg)
    return Built(data, loggers, own, regularizer, companion, compares_scores(loss, data))


RESUMED = {"epoch": int, "optimizer_states": list, "lr_schedulers": list, "loops": dict, "callbacks": dict}
"""Parts of the last checkpoint from which a run resumes, besides the weights, with their types."""


def check_checkpoints(run: RunFolder) -> None:
    """Reject a run whose checkpoints are damaged, before hours of training lead up to the first use of one.

    Raises:
        CheckpointError: One is; the message says how the run starts again.
    """
    best = run.checkpoint("best")
    try:
        last = run.read_checkpoint("last")
        wrong = [name for name, kind in RESUMED.items() if not isinstance(last.get(name), kind)]
        if wrong:
            raise CheckpointError(f"{run.checkpoint('last')} lacks {', '.join(wrong)}.")
        states = [state for state in last.get("callbacks", {}).values() if isinstance(state, dict)]
        if any(state.get("best_model_path") for state in states):  # there has been a dev evaluation
            if not best.is_file():
                raise CheckpointError(f"{best} does not exist any more.")
            run.read_checkpoint("best")
    except CheckpointError as error:
        raise CheckpointError(
            f"{error} The run cannot be resumed without it: restore it from a copy, or remove "
            f"{RunFolder(run.checkpoints).name} to start the run again from the beginning with the same "
            "command."
        ) from error
