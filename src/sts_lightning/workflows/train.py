"""A training run, from its configuration to its report: checks, data, model, trainer, fit, report."""

from __future__ import annotations

import copy
import gc
import inspect
import logging
import math
import re
import signal
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import lightning.pytorch as pl
import torch
from hydra.core.hydra_config import HydraConfig
from hydra.utils import get_method
from lightning.pytorch.callbacks import Callback, EarlyStopping
from lightning.pytorch.loggers import Logger, MLFlowLogger, TensorBoardLogger
from lightning.pytorch.utilities.exceptions import SIGTERMException
from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.build import build, items
from sts_lightning.config.folders import files_of
from sts_lightning.config.identity import SHOWN, leaves, select
from sts_lightning.core import signals
from sts_lightning.core.console import log_to, quiet_lightning
from sts_lightning.core.errors import ConfigError, TrainingError
from sts_lightning.core.files import write_atomic
from sts_lightning.core.hardware import (
    allow_nondeterminism,
    disable_cuda,
    keep_freed_memory,
    local_card,
    resolve_machine,
    set_cublas_workspace,
    weights_device,
    with_machine,
)
from sts_lightning.core.processes import is_first_process
from sts_lightning.data.table import Table
from sts_lightning.data.tasks import texts_in
from sts_lightning.evaluation.dev_scores import monitor_of
from sts_lightning.evaluation.score import Scores, score_data
from sts_lightning.evaluation.unseen_text import report_truncation
from sts_lightning.models.compute.budget import is_out_of_memory
from sts_lightning.models.loading.backbone import NONDETERMINISTIC_ON_CUDA
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import peak_memory
from sts_lightning.runs.state import begin_again
from sts_lightning.training.assembly import Components, Experiment, assemble, make_module
from sts_lightning.training.callbacks.checkpoints import stop_others
from sts_lightning.training.callbacks.progress import RunClock
from sts_lightning.training.module import REMEDY
from sts_lightning.training.optim import check_warmup
from sts_lightning.training.trainer import count_steps, make_trainer
from sts_lightning.workflows.preflight import (
    check_components,
    check_folder,
    check_machine,
    check_rows,
    has_head,
    losses_by_part,
    warn_of_seen_dev_pairs,
)
from sts_lightning.workflows.report import report

log = logging.getLogger(__name__)

BATCHES_AHEAD = 2
"""Batches that are tokenised while a GPU trains; on a CPU tokenising would take cores from training."""

PUBLISHED = {"nli_triplets": "pcc_stage1", "sts": "pcc", "sentences": "cse_sfp"}
"""Experiments that are the published recipes of ``conf/cell``, by data."""

TRAIN_METRICS = ("train/loss", "train/regularizer")
"""Metrics of the training that may end it."""

NOT_DETERMINISTIC = "does not have a deterministic implementation"
"""Part of PyTorch's message about an operation under ``trainer.deterministic=true``."""


def run_training(
    run: RunFolder, cfg: DictConfig, callbacks: Sequence[Callback] = (), resume_command: str = ""
) -> float:
    """Train a run, or go on with what has begun in its folder; see `prepare`, `fit` and `report`.

    Returns:
        Dev Spearman times 100 of the selected weights.

    Raises:
        UserError: Configuration, data or checkpoint cannot be used, or the training cannot go on.
    """
    # Trainer, module and callbacks refer to each other: those of an earlier run would keep its model.
    gc.collect()
    torch.cuda.empty_cache()  # does nothing where CUDA has not been used
    clock = RunClock()
    experiment = prepare(run, cfg, (clock, *callbacks), resume_command)
    # One without a log has its configuration alone, written while the run that it starts from trained.
    again = run.state == "started" and run.log_file.exists()
    with log_to(run.log_file), quiet_lightning():
        try:
            if again:
                log.info("%s has no checkpoint yet: starting it again from the beginning.", run.name)
            if experiment.first:  # before its configuration changes: killed in between, it is interrupted
                run.metrics_file.unlink(missing_ok=True)
            untuned, peak = fit(experiment)
            return report(experiment, untuned, peak, clock)
        except BaseException as error:
            stop_others(experiment.trainer)
            if isinstance(error, SIGTERMException):  # from a handler of Lightning's, in place of ours
                raise signals.Stopped(signal.SIGTERM) from error
            raise


def prepare(
    run: RunFolder, cfg: DictConfig, callbacks: Sequence[Callback] = (), resume_command: str = ""
) -> Experiment:
    """Check folder, configuration, machine and data, and build the run around them.

    What can be wrong is found before weights are loaded, and nothing is written.

    Args:
        run: The run folder, locked by this process. What has begun in it resumes; without a checkpoint it
            starts again.
        cfg: What `check_config` has returned, that of the folder if a run has begun there.
        callbacks: Callbacks besides those of the configuration.
        resume_command: What to tell the user who stops the run.

    Raises:
        UserError: Something is wrong; the message says what, where and what to do.
    """
    made = check_folder(run)
    machine = resolve_machine(cfg)
    check_machine(machine)
    drawn = assemble(cfg, "meta", machine.precision)
    check_components(drawn)
    warn_of_seen_dev_pairs(cfg)

    check_rows(drawn)
    data = drawn.data
    loggers = make_loggers(run, cfg)  # not before: constructors of some write, or call their server

    set_cublas_workspace(machine)  # before the first product on the GPU
    if machine.accelerator == "cpu":
        disable_cuda()
        keep_freed_memory()
    # Random numbers are drawn in one order in every run: the seed is set once the data has been read, which
    # may draw some, then the model draws, then a head.
    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    components = assemble(cfg, weights_device(machine), machine.precision, data)
    encoder, loss = components.encoder, components.loss
    model_type = encoder.plain_backbone.config.model_type
    if model_type in NONDETERMINISTIC_ON_CUDA:  # known by the model alone, and before the Trainer is told
        machine = allow_nondeterminism(machine, cfg.trainer, model_type)
    if machine.launch_tokens == "auto":
        launch = encoder.launch_tokens(local_card(), machine.precision) if machine.accelerator == "gpu" else 0
        machine = replace(machine, launch_tokens=launch)
    chunks: dict[str, Any] = {"chunk_tokens": machine.chunk_tokens, "launch": machine.launch_tokens}
    data.connect(  # with the lengths that have been set by now; a loader cannot be made before
        encoder.prepare(training=True, **chunks),
        encoder.prepare(training=False, **chunks),
        encoder.tokenizer,
    )
    data.numbered = [
        name
        for name, each in losses_by_part(loss, data).items()
        if "sentence_ids" in (each.needs.inputs if data.mask_repeats[name] else each.needs.required_inputs)
    ]
    steps = count_steps(cfg.trainer, len(data.train_dataloader()))
    _check_length(run, steps.total_steps, made)
    data.epoch_batches = steps.epoch_steps  # of the loaders from here on: a limit shortens their epochs
    data.batches_ahead = 0 if machine.accelerator == "cpu" else BATCHES_AHEAD
    check_warmup(cfg.optim.warmup, round(cfg.optim.stretch * steps.total_steps))
    module = make_module(components, machine.precision, steps)

    given = [*components.callbacks, *callbacks]
    monitor, unused = monitor_of(data.dev), _has_unused_weights(components)
    with quiet_lightning():  # last, and before anything is written: a rejected argument leaves no files
        trainer = make_trainer(
            cfg.trainer, machine, steps, run, loggers, given, resume_command, monitor, partly_used=unused
        )
    first = is_first_process()
    return Experiment(run, cfg, machine, data, module, steps, trainer, loggers, given, made, first)


def make_loggers(run: RunFolder, cfg: DictConfig) -> list[Logger]:
    """Build the loggers of a run that can start: MLflow's constructor writes, and Comet's calls its server.

    Args:
        run: The run folder, which exists.
        cfg: A configuration without interpolations.

    Raises:
        ConfigError: A constructor rejects its settings.
    """
    loggers = []
    for key, node in items(cfg.logger):
        taken = inspect.signature(get_method(node["_target_"])).parameters
        given: dict[str, Any] = {}
        if "save_dir" in taken and node.get("save_dir") is None:
            given["save_dir"] = str(run.path)
        # MLflow keeps nothing in a folder any more. Its default is what MLFLOW_TRACKING_URI says.
        if "tracking_uri" in taken and not (node.get("tracking_uri") or taken["tracking_uri"].default):
            given["tracking_uri"] = f"sqlite:///{run.path.absolute()}/mlflow.db"
        loggers.append(build(f"logger.{key}", node, Logger, **given))
    return loggers


def _has_unused_weights(components: Components) -> bool:
    """Return whether a step leaves weights without gradient.

    In a step of joint data these are the heads of the other parts, and an auxiliary model that their losses
    alone take.
    """
    if components.encoder.config.layer != -1:
        return True
    return "part" in components.loss.needs.inputs and (
        has_head(components.loss) or components.auxiliary is not None
    )


def _check_length(folder: RunFolder, steps: int, made: int | None) -> None:
    """Reject a length that a run has reached already; one that is killed in its report may end again."""
    if made is not None and (steps < made or (steps == made and folder.finished)):
        text = f"{folder.name} has made {made} steps, and would end after {steps}; to train it further, give"
        raise ConfigError(
            f"{text} it more by trainer.max_epochs or trainer.max_steps.", key="trainer.max_steps"
        )


def fit(experiment: Experiment) -> tuple[Scores | None, dict[str, int]]:
    """Train, from the beginning or from the last checkpoint.

    Returns:
        Scores before training, if they were asked for, and the peak memory of training; see `peak_memory`.

    Raises:
        TrainingError: The loss is not finite, or memory ran out.
    """
    module, data, trainer = experiment.module, experiment.data, experiment.trainer
    run, evaluation, made = experiment.run, experiment.cfg.evaluation, experiment.made
    _begin(experiment)
    untuned: Scores | None = None
    if experiment.first and (evaluation.untuned or data.data_set.keep_general):
        # Of a resumed run, before its weights are loaded; in the report's precision.
        untuned = score_data(copy.deepcopy(module.encoder).to(trainer.strategy.root_device), data, evaluation)
    if made is not None:
        _continue_loggers(experiment.loggers, run, made)
        log.info("resuming after step %d", made)
    else:
        trainer.validate(module, data, verbose=False)
        _check_monitors(experiment.callbacks, trainer.callback_metrics)
        if experiment.first and isinstance(data.dev, Table):
            before = float(trainer.callback_metrics[monitor_of(data.dev)])
            warn_of_distances(before, len(data.dev))
    last = None if made is None else str(run.checkpoint("last"))
    try:
        trainer.fit(module, data, ckpt_path=last, weights_only=True)
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise TrainingError(f"memory ran out at step {trainer.global_step + 1}. {REMEDY}") from error
        if NOT_DETERMINISTIC in str(error):
            text = f"{str(error).partition('.')[0]}, so the run could not be repeated exactly."
            hint = "trainer.deterministic=warn trains it; the same seed then gives other numbers."
            raise TrainingError(text, key="trainer.deterministic", hint=hint) from error
        raise
    peak = peak_memory()  # before the selected weights are scored
    if "cuda" in peak:
        peak["cuda"] = max(peak["cuda"], module.steps_peak)
    return untuned, peak


def _check_monitors(callbacks: Sequence[Callback], measured: Iterable[str]) -> None:
    """Reject early stopping by a metric that does not exist before the first evaluation, hours later."""
    known = [*sorted(measured), *TRAIN_METRICS]
    for callback in callbacks:
        if isinstance(callback, EarlyStopping) and callback.monitor not in known:
            text = f"early stopping: monitor={callback.monitor} is not measured where it decides."
            raise ConfigError(text, key="callbacks", hint=f"There are: {', '.join(known)}.")


def _begin(experiment: Experiment) -> None:
    """Write the configuration, and say what is about to be trained."""
    run, cfg, data, steps = experiment.run, experiment.cfg, experiment.data, experiment.steps
    settings = with_machine(cfg, experiment.machine)
    if experiment.first:
        run.remove_temporaries()
        if run.state == "started":
            begin_again(run)
        run.save_config(settings, None if experiment.resumed else data.digest_files())
        if not experiment.resumed:
            log_settings(experiment.loggers, settings)
            for logger in experiment.loggers:
                if isinstance(logger, MLFlowLogger):
                    write_atomic(run.mlflow_run, str(logger.run_id))
        report_truncation(experiment.module.encoder, texts_in(data.dev, data.tests), data.train)
    rows, drawn = len(data.train), data.epoch_rows
    whole = steps.epoch_steps == data.train_dataloader().whole_epoch
    alone = sum(part.drops_one for part in data.rows.values()) if whole else 0
    if experiment.machine.reasons:
        log.info("machine: %s", "; ".join(experiment.machine.reasons))
    if (named := published_experiment()) is not None:
        log.info(
            "batch size, epochs and warm-up are those of experiment=%s; its length, text and the loss's "
            "settings are not, so this is not the published recipe",
            named,
        )
    log.info(
        "%s%s%s, %d steps of batch %s%s, dev evaluation every %d steps; run folder %s",
        f"{rows:,} examples",
        "" if rows == drawn else f", {drawn:,} in an epoch",
        f", {alone} of them left out of each epoch" if alone else "",
        steps.total_steps,
        " or ".join(str(size) for size in dict.fromkeys(data.batch_sizes.values())),
        f" (trainer.max_epochs={cfg.trainer.max_epochs} ends the run)" if steps.shortened else "",
        steps.val_steps,
        run.name,
    )
    if (count := experiment.trainer.world_size) > 1:
        log.info("%d processes; training begins once all of them have started", count)


def published_experiment() -> str | None:
    """Return the experiment whose published cell the command took without naming it; None if it took none.

    Hydra alone knows the choices: outside a job, and where an experiment is chosen, it is None too.
    """
    choices = HydraConfig.get().runtime.choices if HydraConfig.initialized() else {}
    recipe, _, cell = str(choices.get("cell")).partition("/")
    if choices.get("experiment") or cell not in files_of(f"cell/{recipe}"):
        return None
    return PUBLISHED.get(choices["data"])


def warn_of_distances(spearman: float, pairs: int) -> None:
    """Warn of dev scores that the model before training ranks in reverse, beyond chance.

    The standard error of a correlation of nothing is 1 / sqrt(N - 1). Even a model with random weights ranks
    pairs with common words above others.

    Args:
        spearman: Its Spearman times 100.
        pairs: Number N of dev pairs.
    """
    if spearman < -30 and spearman / 100 * math.sqrt(pairs - 1) < -2.5:
        log.warning(
            "WARNING: the dev Spearman before training is %.2f: the scores seem to be distances. A higher "
            "score has to mean more similar; turn them round, as the highest score less each of them.",
            spearman,
        )


def log_settings(loggers: Sequence[Logger], cfg: DictConfig) -> None:
    """Give the loggers the settings of a run by dotted key, without folders of the machine."""
    plain: Any = OmegaConf.to_container(cfg, resolve=True)
    settings = {  # a key may be a pattern of files, and MLflow takes no other characters
        re.sub(r"[^\w./: -]", "_", key): value if isinstance(value, bool | int | float | str) else str(value)
        for key, value in select(leaves(plain), SHOWN).items()
    }
    for logger in loggers:
        logger.log_hyperparams(settings)


def _continue_loggers(loggers: Sequence[Logger], run: RunFolder, step: int) -> None:
    for logger in loggers:
        if isinstance(logger, TensorBoardLogger):
            # For the writer that Lightning makes at the first use: later rows of the first part are hidden.
            logger._kwargs["purge_step"] = step + 1
        elif isinstance(logger, MLFlowLogger) and run.mlflow_run.is_file():
            logger._run_id = run.mlflow_run.read_text()
