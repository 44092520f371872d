"""One training run: validate, build, fit, report."""

from __future__ import annotations

import contextlib
import copy
import logging
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import lightning.pytorch as pl
import numpy as np
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger, TensorBoardLogger
from lightning.pytorch.utilities.exceptions import SIGTERMException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sts_lightning import interrupts
from sts_lightning.conf_folders import command_line
from sts_lightning.config.build import name_setting
from sts_lightning.config.keys import path_override
from sts_lightning.config.machine import decided, fix_workspace, weights_device, without_repetition
from sts_lightning.config.trust import NOTHING, Trust, wanted
from sts_lightning.console import log_to, quiet_lightning
from sts_lightning.cpu import keep_freed_memory
from sts_lightning.data.pair_tables import values_of
from sts_lightning.errors import CheckpointError, InterruptedRunError, TrainingError, at_setting
from sts_lightning.losses.base import Loss
from sts_lightning.models.encoder import SentenceEncoder, freeze
from sts_lightning.models.inference import is_out_of_memory
from sts_lightning.models.limits import NOT_REPEATABLE
from sts_lightning.models.loading import build_encoder, edit_and_cut, load_part
from sts_lightning.planning.start import planned_micro_batch
from sts_lightning.runs.environment import peak_memory
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.lock import is_first_process, locked
from sts_lightning.runs.state import begin_again, defining_leaves, next_step
from sts_lightning.training.assembly import make_loss, make_module
from sts_lightning.training.callbacks import RunClock
from sts_lightning.training.history import HistoryLogger
from sts_lightning.training.micro_batch import REMEDY
from sts_lightning.training.module import STSModule
from sts_lightning.training.optim import check_warmup
from sts_lightning.training.recorder import stop_others
from sts_lightning.training.trainer import Plan, make_plan, make_trainer
from sts_lightning.workflows.checks import Parts, check_monitors, validate
from sts_lightning.workflows.cut_texts import report_cut
from sts_lightning.workflows.report import Fitted, report
from sts_lightning.workflows.scoring import Scores, score
from sts_lightning.workflows.seen_dev_pairs import describe_seen

log = logging.getLogger(__name__)

BATCHES_AHEAD = 2
"""Batches that are tokenised while a GPU trains; on a CPU tokenising would take cores from training."""

NOT_DETERMINISTIC = "does not have a deterministic implementation"
"""Part of PyTorch's message about an operation under ``trainer.deterministic=true``."""


def train_in(
    run: Path,
    cfg: DictConfig,
    resume: bool = False,
    whole: Path | None = None,
    trust: Trust = NOTHING,
    callbacks: Sequence[Callback] = (),
) -> float:
    """Train in a run folder, which no other process can use meanwhile.

    Everything that can be wrong with configuration, data and machine is found before weights are
    loaded, and nothing is written before that.

    Args:
        run: The folder.
        cfg: A composed configuration of the schema `TrainConfig`.
        resume: Whether to resume from the folder's last checkpoint; a run without one starts again.
        whole: The folder of stages that the run is part of; a stopped run is resumed by its name.
        trust: The user's word on what this folder, if it is resumed, and that of ``init_from`` may ask for,
            besides what ``cfg`` itself has.
        callbacks: Callbacks besides those of the configuration.

    Returns:
        Dev Spearman times 100 of the selected weights.

    Raises:
        RunningElsewhereError: Another process is running in the folder.
        InterruptedRunError: A signal stopped the run.
        UserError: Configuration, data or checkpoint cannot be used.
    """
    folder, named = RunFolder(run), RunFolder(whole or run)
    command = _resume_command(named, cfg, trust)
    first = is_first_process()  # of several; Lightning starts the others once this one is ready
    if not first:
        logging.getLogger("sts_lightning").setLevel(logging.WARNING)
    with interrupts.listening(), locked(run) if first else contextlib.nullcontext():
        try:
            with interrupts.unmasked():
                clock = RunClock()
                parts = validate(folder, cfg, resume, (clock, *callbacks))
                experiment = build_experiment(parts, command, trust)
                with log_to(folder.log_file), quiet_lightning(), _stopping_others(experiment.trainer):
                    return report(fit(experiment), clock)
        except (KeyboardInterrupt, SystemExit) as error:  # Lightning turns the first into the second
            number = (
                signal.SIGTERM if isinstance(error, SIGTERMException) else interrupts.stopping_signal(error)
            )
            if number is None:
                raise
            how = next_step(named, command)
            raise InterruptedRunError(f"stopped by {interrupts.signal_name(number)}{how}", number) from error


@contextlib.contextmanager
def _stopping_others(trainer: pl.Trainer) -> Iterator[None]:
    """Stop the other processes of a run if this one fails."""
    try:
        yield
    except BaseException:
        stop_others(trainer)
        raise


def _resume_command(run: RunFolder, cfg: DictConfig, trust: Trust) -> str:
    """Return the command that resumes a run, with the consent that its configuration needs."""
    with contextlib.suppress(OmegaConfBaseException):  # what cannot be resolved is rejected later
        trust |= wanted(cfg)
    return command_line("train", path_override("resume", run.name), *trust.arguments())


@dataclass(frozen=True)
class Experiment:
    """A run that is ready to train: weights loaded, nothing written yet.

    Attributes:
        parts: What `validate` found.
        module: Encoder, loss and optimiser.
        plan: Steps of the run.
        trainer: Lightning's Trainer.
    """

    parts: Parts
    module: STSModule
    plan: Plan
    trainer: pl.Trainer


def build_experiment(parts: Parts, resume_command: str, trust: Trust = NOTHING) -> Experiment:
    """Load the weights, and build module and trainer around them.

    The seed is set between reading the data and loading the model, and the loss, which may have a head, is
    built after the model: random numbers are drawn in this order in every run.

    Args:
        parts: What `validate` found.
        resume_command: What to tell the user who stops the run.
        trust: The user's word on what the folder of ``init_from`` may ask for.

    Raises:
        UserError: The model or the earlier run cannot be loaded, or the settings leave no step to train.
    """
    cfg, machine, data = parts.cfg, parts.machine, parts.data
    fix_workspace(machine)
    if machine.accelerator == "cpu":
        keep_freed_memory()
    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    encoder = build_encoder(cfg.model, cfg.prompt, weights_device(machine))
    loss = make_loss(cfg.loss, encoder.dimension, data.top_label)
    keep: set[str] = set()
    if cfg.init_from is not None:
        with at_setting("init_from"):
            names = warm_start(RunFolder(cfg.init_from).last_stage(), cfg, encoder, loss, trust | wanted(cfg))
        keep = {f"encoder.{name}" for name in names}
    freeze(encoder, cfg.optim.freeze)
    edit_and_cut(encoder, cfg.evaluation.text_edit, cfg.evaluation.max_length)
    if parts.companion is not None:
        with name_setting("companion", cfg.companion):
            parts.companion.trust = trust | wanted(cfg)
            parts.companion.connect(encoder)
    if cfg.trainer.gradient_checkpointing:
        encoder.checkpoint_layers()
    model_type = encoder.plain_backbone.config.model_type
    if model_type in NOT_REPEATABLE:
        machine = without_repetition(machine, cfg.trainer, model_type)
        parts = replace(parts, machine=machine)
    data.connect(
        encoder.prepare(machine.chunk_tokens, training=True),
        encoder.prepare(machine.chunk_tokens, training=False),
    )
    plan = make_plan(cfg.trainer, len(data.train_dataloader()))
    data.epoch_batches = plan.epoch_steps
    data.batches_ahead = 0 if machine.accelerator == "cpu" else BATCHES_AHEAD
    check_warmup(cfg.optim.warmup, round(cfg.optim.stretch * plan.total_steps))
    module = make_module(
        cfg, machine.precision, encoder, loss, parts.regularizer, plan, keep, parts.companion
    )
    if cfg.trainer.micro_batch_size == "auto":
        module.planned_micro_batch = planned_micro_batch(cfg, machine)
    with quiet_lightning():  # a rejected setting leaves no files
        trainer = make_trainer(
            cfg.trainer,
            machine,
            plan,
            parts.run,
            parts.loggers,
            parts.callbacks,
            resume_command,
            partly_used=encoder.layer != -1,
        )
    return Experiment(parts, module, plan, trainer)


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
    seen = describe_seen("this run", cfg, earlier) if "data" in earlier else None
    if seen is not None:
        log.warning("WARNING: init_from=%s %s A checkpoint near the start may look too good.", run.name, seen)
    if run.resumable:
        log.warning("WARNING: init_from=%s has not finished; resume=%s finishes it.", run.name, run.name)
    kind: Literal["best", "last"] = "best" if which == "best" else "last"
    path = run.checkpoint(kind)
    checkpoint = run.read_checkpoint(kind)
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


def fit(experiment: Experiment) -> Fitted:
    """Train, from the beginning or from the last checkpoint.

    Raises:
        TrainingError: The loss is not finite, or memory ran out.
    """
    parts, module, trainer = experiment.parts, experiment.module, experiment.trainer
    _begin(experiment)
    untuned: Scores | None = None
    if parts.cfg.evaluation.untuned and parts.first:  # of a resumed run, before its weights are loaded
        encoder = copy.deepcopy(module.encoder).to(trainer.strategy.root_device)  # the report's precision
        untuned = score(encoder, parts.data, parts.cfg.evaluation)
        del encoder
    if parts.resumed:
        step = _continue_history(parts.loggers, parts.run)
        log.info("resuming after step %d", step)
    else:
        trainer.validate(module, parts.data, verbose=False)
        check_monitors(parts.cfg, parts.callbacks, trainer.callback_metrics)
    last = str(parts.run.checkpoint("last")) if parts.resumed else None
    try:
        trainer.fit(module, parts.data, ckpt_path=last, weights_only=True)
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise TrainingError(f"memory ran out at step {trainer.global_step + 1}. {REMEDY}") from error
        if NOT_DETERMINISTIC in str(error):
            raise TrainingError(
                f"{str(error).partition('.')[0]}, so the run could not be repeated exactly.",
                key="trainer.deterministic",
                hint="trainer.deterministic=warn trains it; the same seed then gives other numbers.",
            ) from error
        raise
    peak = peak_memory()  # before the selected weights are scored
    if "cuda" in peak:
        peak["cuda"] = max(peak["cuda"], module.steps_peak)
    return Fitted(parts, module, trainer, untuned, peak)


def _begin(experiment: Experiment) -> None:
    """Write the configuration, and say what is about to be trained."""
    parts, plan = experiment.parts, experiment.plan
    if parts.first:
        parts.run.remove_temporaries()
        if parts.again:
            begin_again(parts.run)
        parts.run.save_config(decided(parts.cfg, parts.machine))
        if not parts.resumed:
            log_settings(parts.loggers, decided(parts.cfg, parts.machine))
        tests = [table for task in parts.data.tests for table in task.subsets.values()]
        report_cut(experiment.module.encoder, [parts.data.dev, *tests], parts.data.train)
        _warn_of_equal_labels(experiment)
    rows, drawn = len(parts.data.train), parts.data.epoch_rows
    alone = parts.data.train_dataloader().drop_last and plan.epoch_steps == drawn // parts.data.batch_size
    if parts.machine.reasons:
        log.info("machine: %s", "; ".join(parts.machine.reasons))
    log.info(
        "%s%s%s, %d steps of batch %d, dev evaluation every %d steps; run folder %s",
        f"{rows:,} examples",
        "" if rows == drawn else f", {drawn:,} in an epoch",
        ", 1 of them left out of each epoch" if alone else "",
        plan.total_steps,
        parts.data.batch_size,
        plan.val_steps,
        parts.run.name,
    )
    if plan.shortened:
        trainer = parts.cfg.trainer
        log.info(
            "trainer.max_epochs=%d ends the run before trainer.max_steps=%d; trainer.max_epochs=null lets "
            "it reach them",
            trainer.max_epochs,
            trainer.max_steps,
        )
    if (count := experiment.trainer.world_size) > 1:
        log.info("%d processes; training begins once all of them have started", count)


def _warn_of_equal_labels(experiment: Experiment) -> None:
    """Warn of batches of the first epoch whose labels are all equal, where the loss compares them."""
    loss, data = experiment.module.loss, experiment.parts.data
    if not loss.compares:
        return
    batches = data.train_dataloader().first_epoch()[: experiment.plan.total_steps]
    labels = np.asarray(values_of(data.train, "label"))
    equal = sum(np.ptp(labels[rows]) == 0 for rows in batches)
    if equal:
        log.warning(
            "WARNING: in %d of %d batches of the first epoch all %s are equal, and %s does not train on "
            "them; a larger data.batch_size%s avoids it.",
            equal,
            len(batches),
            "scores" if data.label == "score" else "classes",
            type(loss).__name__,
            ", or loss=cosine_mse," if data.label == "score" else "",
        )


def log_settings(loggers: Sequence[Logger], cfg: DictConfig) -> None:
    """Give the loggers the settings of a run by dotted key, without folders of the machine."""
    plain: Any = OmegaConf.to_container(cfg, resolve=True)
    settings = {
        key: value if isinstance(value, bool | int | float | str) else str(value)
        for key, value in defining_leaves(plain).items()
    }
    for logger in loggers:
        logger.log_hyperparams(settings)


def _continue_history(loggers: Sequence[Logger], run: RunFolder) -> int:
    """Let the loggers of a resumed run go on after its last checkpoint; return the step of that."""
    step: int = run.read_checkpoint("last")["global_step"]
    for logger in loggers:
        if isinstance(logger, HistoryLogger):
            logger.continue_from(step)
        elif isinstance(logger, TensorBoardLogger):
            # For the writer that Lightning makes at the first use: later rows of the first part are hidden.
            logger._kwargs["purge_step"] = step + 1
    return step
