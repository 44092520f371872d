"""A run that is ready to train: weights, loss, optimiser and trainer around the data that has been read."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import lightning.pytorch as pl
from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.build import name_setting
from sts_lightning.config.machine import (
    fix_workspace,
    hide_gpus,
    trained_model,
    weights_device,
    without_repetition,
)
from sts_lightning.core.console import quiet_lightning
from sts_lightning.core.errors import at_setting
from sts_lightning.core.hardware import keep_freed_memory
from sts_lightning.evaluation.dev_scores import monitor_of
from sts_lightning.losses.base import Loss
from sts_lightning.models.architectures.positions import NOT_REPEATABLE
from sts_lightning.models.encoder import SentenceEncoder, freeze
from sts_lightning.models.loading.folder import check_writable, load_weights, refers_to_base, step_of
from sts_lightning.models.loading.run import build_encoder, model_folder, set_evaluation_text
from sts_lightning.runs.folder import RunFolder, Which
from sts_lightning.training.assembly import make_loss, make_module
from sts_lightning.training.module import STSModule
from sts_lightning.training.optim import check_warmup
from sts_lightning.training.trainer import StepCount, count_steps, make_trainer
from sts_lightning.workflows.checks import Parts, has_head, losses_by_part

log = logging.getLogger(__name__)

BATCHES_AHEAD = 2
"""Batches that are tokenised while a GPU trains; on a CPU tokenising would take cores from training."""


@dataclass(frozen=True)
class Experiment:
    """A run that is ready to train: weights loaded, nothing written yet.

    Attributes:
        parts: What `validate` found.
        module: Encoder, loss and optimiser.
        steps: Steps of the run.
        trainer: Lightning's Trainer.
    """

    parts: Parts
    module: STSModule
    steps: StepCount
    trainer: pl.Trainer


def build_experiment(parts: Parts, resume_command: str) -> Experiment:
    """Load the weights, and build module and trainer around them.

    Args:
        parts: What `validate` found.
        resume_command: What to tell the user who stops the run.

    Raises:
        UserError: The model or the earlier run cannot be loaded, or the settings leave no step to train.
    """
    cfg, machine, data = parts.cfg, parts.machine, parts.data
    fix_workspace(machine)  # before the first product on the GPU
    if machine.accelerator == "cpu":
        hide_gpus()
        keep_freed_memory()
    # Random numbers are drawn in one order in every run: the seed is set once the data has been read, which
    # may draw some, then the model draws, then a head.
    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    model = trained_model(cfg, machine.precision)
    encoder = build_encoder(model, cfg.prompt, weights_device(machine))
    loss = make_loss(cfg.loss, encoder.dimension, data.parts)
    keep: set[str] = set()
    if cfg.init_from is not None:  # after the loss, whose head it may fill; before anything copies weights
        with at_setting("init_from"):
            names = warm_start(RunFolder(cfg.init_from), cfg, encoder, loss)
        keep = {f"encoder.{name}" for name in names}
    freeze(encoder, cfg.optim.freeze)
    set_evaluation_text(encoder, cfg.evaluation.text_edit, cfg.evaluation.max_length)
    check_writable(encoder)
    if parts.auxiliary is not None:  # may copy the encoder, which by now is as it starts to train
        with name_setting("auxiliary", cfg.auxiliary):
            parts.auxiliary.connect(encoder)
    if cfg.trainer.gradient_checkpointing:  # not of a copy, which has no backward pass
        encoder.checkpoint_layers()
    model_type = encoder.plain_backbone.config.model_type
    if model_type in NOT_REPEATABLE:  # known by the model alone, and before the Trainer is told
        machine = without_repetition(machine, cfg.trainer, model_type)
        parts = replace(parts, machine=machine)
    data.connect(  # with the lengths that have been set above; a loader cannot be made before
        encoder.prepare(machine.chunk_tokens, training=True),
        encoder.prepare(machine.chunk_tokens, training=False),
        encoder.tokenizer,
    )
    losses = losses_by_part(loss, data).items()
    data.masked = [
        name for name, part in losses if any(getattr(m, "mask_repeats", False) for m in part.modules())
    ]
    steps = count_steps(cfg.trainer, len(data.train_dataloader()))
    data.epoch_batches = steps.epoch_steps  # of the loaders from here on: a limit shortens their epochs
    data.batches_ahead = 0 if machine.accelerator == "cpu" else BATCHES_AHEAD
    check_warmup(cfg.optim.warmup, round(cfg.optim.stretch * steps.total_steps))
    module = make_module(
        cfg,
        precision=machine.precision,
        encoder=encoder,
        loss=loss,
        regularizer=parts.regularizer,
        steps=steps,
        keep=keep,
        auxiliary=parts.auxiliary,
    )
    with quiet_lightning():  # last, and before anything is written: a rejected argument leaves no files
        trainer = make_trainer(
            cfg.trainer,
            machine=machine,
            steps=steps,
            run=parts.run,
            loggers=parts.loggers,
            callbacks=parts.callbacks,
            resume_command=resume_command,
            monitor=monitor_of(data.dev),
            # In a step of joint data the heads of the other parts have no gradient, nor has an auxiliary
            # model that their losses alone take.
            partly_used=encoder.config.layer != -1
            or ("part" in loss.takes and (has_head(loss) or parts.auxiliary is not None)),
        )
    return Experiment(parts, module, steps, trainer)


def warm_start(run: RunFolder, cfg: DictConfig, encoder: SentenceEncoder, loss: Loss) -> set[str]:
    """Load the weights of an earlier run: those of the encoder, and of a loss head of the same shape.

    Args:
        run: The earlier run's folder.
        cfg: Configuration of the new run, whose model must be that of the earlier one.
        encoder: The encoder to load the weights into.
        loss: The loss; its head is loaded only if it has the shape of the earlier run's head.

    Returns:
        Names of the encoder's weights that were loaded.

    Raises:
        CheckpointError: The folder is no finished run, has another model, or its files are broken.
    """
    which: Which = "best" if cfg.trainer.init == "best" else "final"
    folder = model_folder(run, which)
    from sts_lightning.workflows.seen_dev_pairs import describe_seen  # of a warm start, or an average

    seen = describe_seen("this run", cfg, OmegaConf.create(run.settings()))
    if seen is not None:
        log.warning("WARNING: init_from=%s %s A checkpoint near the start may look too good.", run.name, seen)
    head = load_weights(encoder, folder)
    own = {name: value.shape for name, value in loss.state_dict().items()}
    same_head = bool(head) and {name: value.shape for name, value in head.items()} == own
    if same_head:
        loss.load_state_dict(head)
    # Those of a base that is not trained are in its own files.
    whole = not refers_to_base(encoder)
    names = {name for name, weight in encoder.named_parameters() if weight.requires_grad or whole}
    log.info(
        "starting from %s: %s (%s%s): %d weights of the encoder, %s",
        run.settings().get("name"),
        run.name,
        cfg.trainer.init,
        "" if (step := step_of(folder)) is None else f", step {step}",
        len(names),
        "and the head" if same_head else "no head",
    )
    return names
