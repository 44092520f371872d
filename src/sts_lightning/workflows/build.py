"""A run that is ready to train: weights, loss, optimiser and trainer around the data that has been read."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

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
from sts_lightning.config.trust import NOTHING, Trust, wanted
from sts_lightning.core.console import quiet_lightning
from sts_lightning.core.errors import CheckpointError, at_setting
from sts_lightning.core.hardware import keep_freed_memory
from sts_lightning.evaluation.dev_scores import monitor_of
from sts_lightning.losses.base import Loss
from sts_lightning.models.architectures.positions import NOT_REPEATABLE
from sts_lightning.models.encoder import SentenceEncoder, freeze
from sts_lightning.models.loading.run import build_encoder, load_part, set_evaluation_text
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


def build_experiment(parts: Parts, resume_command: str, trust: Trust = NOTHING) -> Experiment:
    """Load the weights, and build module and trainer around them.

    Args:
        parts: What `validate` found.
        resume_command: What to tell the user who stops the run.
        trust: The user's word on what the folder of ``init_from`` may ask for.

    Raises:
        UserError: The model or the earlier run cannot be loaded, or the settings leave no step to train.
    """
    cfg, machine, data = parts.cfg, parts.machine, parts.data
    trust |= wanted(cfg)
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
            names = warm_start(RunFolder(cfg.init_from).last_stage(), cfg, encoder, loss, trust)
        keep = {f"encoder.{name}" for name in names}
    freeze(encoder, cfg.optim.freeze)
    set_evaluation_text(encoder, cfg.evaluation.text_edit, cfg.evaluation.max_length)
    if parts.auxiliary is not None:  # may copy the encoder, which by now is as it starts to train
        with name_setting("auxiliary", cfg.auxiliary):
            parts.auxiliary.trust = trust
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
            partly_used=encoder.layer != -1
            or ("part" in loss.takes and (has_head(loss) or parts.auxiliary is not None)),
        )
    return Experiment(parts, module, steps, trainer)


def warm_start(
    run: RunFolder, cfg: DictConfig, encoder: SentenceEncoder, loss: Loss, trust: Trust = NOTHING
) -> set[str]:
    """Load the weights of an earlier run: those of the encoder, and of a loss head of the same shape.

    Args:
        run: The earlier run's folder.
        cfg: Configuration of the new run, whose model must be that of the earlier one.
        encoder: The encoder to load the weights into.
        loss: The loss; its head is loaded only if it has the shape of the earlier run's head.
        trust: The user's word on what the earlier run's folder may ask for.

    Returns:
        Names of the encoder's weights that were loaded.

    Raises:
        CheckpointError: The folder is no run folder, has another model, or its files are broken.
    """
    earlier, model, which = run.load_config(trust, encoder_only=True), cfg.model, cfg.trainer.init
    for key in ("_target_", "name"):
        if earlier.model.get(key) != model.get(key):
            raise CheckpointError(
                f"init_from={run.name} was trained from model {earlier.model.get(key)}, not "
                f"{model.get(key)}; choose the same model."
            )
    if _shape_of(earlier.model) != _shape_of(model):
        raise CheckpointError(
            f"init_from={run.name} was trained with another adapter ({_shape_of(earlier.model) or 'none'}), "
            f"not {_shape_of(model) or 'none'}; leave model.adapter as it was."
        )
    from sts_lightning.workflows.seen_dev_pairs import describe_seen  # of a warm start, or an average

    seen = describe_seen("this run", cfg, earlier) if "data" in earlier else None
    if seen is not None:
        log.warning("WARNING: init_from=%s %s A checkpoint near the start may look too good.", run.name, seen)
    if run.resumable:
        log.warning("WARNING: init_from=%s has not finished; resume=%s finishes it.", run.name, run.name)
    kept: Which = "best" if which == "best" else "last"
    path, checkpoint = run.checkpoint(kept), run.read_checkpoint(kept)
    trains = {parameter: parameter.requires_grad for parameter in encoder.parameters()}
    # What the earlier run did not train may be absent.
    freeze(encoder, OmegaConf.select(earlier, "optim.freeze", default="none"))
    names = load_part(encoder, "encoder.", checkpoint, path)
    for parameter, requires_grad in trains.items():
        parameter.requires_grad_(requires_grad)
    heads = {name: v.shape for name, v in checkpoint["state_dict"].items() if name.startswith("loss.")}
    same_head = heads == {f"loss.{name}": value.shape for name, value in loss.state_dict().items()}
    if heads and same_head:
        load_part(loss, "loss.", checkpoint, path)
    log.info(
        "starting from %s (%s, step %d): %d weights of the encoder, %s",
        run.name,
        which,
        checkpoint["global_step"],
        len(names),
        "and the head" if heads and same_head else "no head",
    )
    return names


def _shape_of(model: DictConfig) -> dict[str, Any]:
    """Return the settings of a model's adapter that decide which weights it has, and what they mean."""
    adapter = model.get("adapter") or {}
    return {key: value for key, value in adapter.items() if key != "lora_dropout"}
