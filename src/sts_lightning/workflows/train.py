"""One training run, from configuration to run folder."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import logging
import resource
import shlex
import signal
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities.exceptions import SIGTERMException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from sts_lightning import interrupts
from sts_lightning.analysis.phases import Phases, find_phases
from sts_lightning.analysis.plots import plot_cosines, plot_curves, plot_rank_curves, plot_rank_scores
from sts_lightning.config.build import build, check_config
from sts_lightning.config.machine import decide, decided, weights_device
from sts_lightning.config.trust import NOTHING, Trust, check_links, wanted
from sts_lightning.console import log_to, quiet_lightning
from sts_lightning.data.module import SentenceDataModule
from sts_lightning.errors import CheckpointError, InterruptedRunError, TrainingError
from sts_lightning.evaluation.correlation import Correlations, correlate
from sts_lightning.evaluation.report import print_scores, spearman_row
from sts_lightning.evaluation.sts import STSResult, encode_pairs, score_tasks
from sts_lightning.losses.base import Loss
from sts_lightning.models.encoder import Precision, SentenceEncoder
from sts_lightning.runs import folder as runs
from sts_lightning.runs.lock import is_first_process, locked
from sts_lightning.runs.predictions import save_predictions
from sts_lightning.runs.state import begin_again, check_free, check_resumable, check_same, next_step, state_of
from sts_lightning.training.history import HistoryLogger, read_history, scores_before_and_at
from sts_lightning.training.micro_batch import REMEDY, is_out_of_memory
from sts_lightning.training.module import MONITOR, STSModule
from sts_lightning.training.optim import check_optim, check_warmup, make_optimizer, make_schedule
from sts_lightning.training.queue import MomentumQueue
from sts_lightning.training.trainer import check_trainer, make_plan, make_trainer
from sts_lightning.workflows.validate import check_extras, check_fit, check_views

log = logging.getLogger(__name__)


def train_in(
    run: Path,
    cfg: DictConfig,
    resume: bool = False,
    whole: Path | None = None,
    trust: Trust = NOTHING,
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

    Returns:
        Dev Spearman times 100 of the selected weights.

    Raises:
        RunningElsewhereError: Another process is running in the folder.
        InterruptedRunError: A signal stopped the run.
        UserError: Configuration, data or checkpoint cannot be used.
    """
    command = _resume_command(whole or run, cfg, trust)
    # Of several processes; Lightning starts the others once this one is ready.
    first = is_first_process()
    if not first:
        logging.getLogger("sts_lightning").setLevel(logging.WARNING)
    with interrupts.listening(), locked(run) if first else contextlib.nullcontext():
        try:
            return _train_in(run, cfg, resume, first, command, trust)
        except (KeyboardInterrupt, SystemExit) as error:  # Lightning turns the first into the second
            number = (
                signal.SIGTERM if isinstance(error, SIGTERMException) else interrupts.stopping_signal(error)
            )
            if number is None:
                raise
            how = next_step(whole or run, command)
            raise InterruptedRunError(f"stopped by {interrupts.signal_name(number)}{how}", number) from error


def _resume_command(folder: Path, cfg: DictConfig, trust: Trust) -> str:
    """The command that resumes a run, with the consent that its configuration needs."""
    with contextlib.suppress(OmegaConfBaseException):  # what cannot be resolved is rejected later
        trust |= wanted(cfg)
    arguments = [Path(sys.argv[0]).name, f"resume={runs.run_name(folder)}", *trust.arguments()]
    return f"python {shlex.join(arguments)}"


def _train_in(
    run: Path, cfg: DictConfig, resume: bool, first: bool, resume_command: str, trust: Trust
) -> float:
    started = time.monotonic()
    state = state_of(run)
    if first:
        state = check_resumable(run) if resume else check_free(run)
    again = state == "started"
    check_start = not resume
    resume = resume and not again
    if resume:
        check_links(run)
        _check_checkpoints(run)
    check_config(cfg)
    machine = decide(cfg.trainer)
    check_trainer(cfg.trainer, machine, cfg.data.batch_size)
    check_optim(cfg.optim)
    loss: Loss = build("loss", cfg.loss)
    data: SentenceDataModule = build("data", cfg.data)
    check_fit(loss, data)
    check_views(cfg.prompt, data)
    loggers = _build_loggers(cfg, run)
    callbacks = [build(f"callbacks.{name}", node) for name, node in cfg.callbacks.items()]
    regularizer = build("regularizer", cfg.regularizer) if cfg.regularizer else None
    check_extras(cfg, loss, regularizer, callbacks)
    if first and again and check_start:
        check_same(run, decided(cfg, machine))
    data.load()
    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    encoder = runs.build_encoder(cfg.model, cfg.prompt, weights_device(machine))
    loss.make_head(encoder.dimension, data.top_label)
    keep: set[str] = set()
    if cfg.init_from is not None:
        keep = {
            f"encoder.{name}"
            for name in runs.start_from(
                Path(cfg.init_from), cfg.init, encoder, loss, cfg.model, trust | wanted(cfg)
            )
        }
    runs.freeze(encoder, cfg.freeze)
    encoder.text_edit = cfg.evaluation.text_edit
    if cfg.trainer.gradient_checkpointing:
        encoder.checkpoint_layers()
    chunk_tokens = machine.chunk_tokens
    data.connect(encoder.prepare(chunk_tokens, training=True), encoder.prepare(chunk_tokens, training=False))
    plan = make_plan(cfg.trainer, len(data.train_dataloader()))
    data.epoch_batches = plan.epoch_steps
    check_warmup(cfg.optim.warmup, plan.total_steps)
    module = STSModule(
        encoder,
        loss,
        partial(
            make_optimizer,
            lr=cfg.optim.lr,
            weight_decay=cfg.optim.weight_decay,
            betas=tuple(cfg.optim.betas),
            eps=cfg.optim.eps,
            layer_decay=cfg.optim.layer_decay,
            decay_embeddings=cfg.optim.decay_embeddings,
            head_lr=cfg.optim.head_lr,
            fused=machine.precision != "16-mixed",
        ),
        partial(
            make_schedule, schedule=cfg.optim.schedule, warmup=cfg.optim.warmup, total_steps=plan.total_steps
        ),
        cfg.freeze,
        keep,
        regularizer,
        MomentumQueue(encoder, cfg.queue.size, cfg.queue.momentum) if cfg.queue.size else None,
        cfg.trainer.micro_batch_size,
        cfg.trainer.official_gather,
    )

    with quiet_lightning():  # what it rejects leaves nothing behind
        trainer = make_trainer(
            cfg.trainer,
            machine,
            plan,
            run,
            loggers,
            callbacks,
            resume_command,
            partly_used=encoder.layer != -1,
        )
    with log_to(run / "train.log"), quiet_lightning():
        if first:
            if again:
                begin_again(run)
            runs.save_config(run, decided(cfg, machine))
        if machine.reasons:
            log.info("%s", machine.describe())
        log.info(
            "%s examples, %d steps of batch %d, dev evaluation every %d steps; run folder %s",
            f"{len(data.train):,}",
            plan.total_steps,
            data.batch_size,
            plan.val_steps,
            runs.run_name(run),
        )
        untuned = None
        if cfg.evaluation.untuned and first and not resume:
            untuned = _score(copy.deepcopy(encoder), data, cfg.evaluation)
        if resume:
            _continue_history(loggers, run)
        else:
            trainer.validate(module, data, verbose=False)
        module.train()  # a backbone comes from its files in eval mode, and Lightning keeps the mode it finds
        try:
            last = str(runs.last_checkpoint(run)) if resume else None
            trainer.fit(module, data, ckpt_path=last, weights_only=True)
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise TrainingError(f"memory ran out at step {trainer.global_step + 1}. {REMEDY}") from error
            raise
        if not first:
            return float(trainer.callback_metrics[MONITOR])
        best_step = runs.load_best(run, encoder)
        tuned = _score(encoder.to(trainer.strategy.root_device), data, cfg.evaluation)
        history = read_history(run / "history.csv")
        before, selected = scores_before_and_at(history, MONITOR, best_step)
        worse = None if before is None or selected is None else selected < before
        if tuned.test is not None:
            save_predictions(run, data.tests, tuned.test_cosines)
        runs.save_metrics(
            run,
            {
                "dev": tuned.dev,
                "dev_untuned": before,
                "worse_than_untuned": worse,
                "test": tuned.test,
                "test_untuned": untuned.test if untuned else None,
                "best_step": best_step,
                "steps": plan.total_steps,
                "seed": cfg.seed,
                "precision": encoder.precision,
                "machine": machine.record(),
                "text_edit": encoder.text_edit,
                "processes": trainer.world_size,
                "micro_batch_size": module.micro_batch_size,
                "phases": _phases(history),
                "data": [dataclasses.asdict(count) | {"kept": count.kept} for count in data.counts],
                "wall_seconds": round(time.monotonic() - started, 1),
                "peak_memory_bytes": _peak_memory(),
                "resumed": resume,
                **runs.environment(),
            },
        )
        title = f"{cfg.name}, seed {cfg.seed}"
        plot_curves(history, run / "plots" / "curves.png", best_step, title)
        plot_cosines(
            tuned.dev_cosines,
            np.asarray(data.dev["label"]),
            run / "plots" / "dev_cosines.png",
            f"{title}: dev Spearman {tuned.dev['spearman']:.2f}",
        )
        _plot_ranks(history, run, title)
        if worse:
            log.warning(
                "WARNING: the selected weights (dev %.2f) are worse than the untuned model (dev %.2f): lower "
                "optim.lr or train longer.",
                selected,
                before,
            )
        _print_report(tuned, untuned, history, cfg, encoder.precision)
        log.info(
            "selected step %d of %d; results, plots and weights: %s",
            best_step,
            plan.total_steps,
            runs.run_name(run),
        )
    return tuned.dev["spearman"]


@dataclass(frozen=True)
class _Scores:
    dev: Correlations
    dev_cosines: np.ndarray
    test: STSResult | None
    test_cosines: list[np.ndarray]


def _score(encoder: SentenceEncoder, data: SentenceDataModule, evaluation: DictConfig) -> _Scores:
    """Score dev pairs and test tasks, with all their sentences encoded in one go.

    The encoder is left in the precision of the report.
    """
    precision = evaluation.precision or encoder.precision
    if precision != encoder.precision:
        encoder.set_precision(precision)
    tasks = data.tests if evaluation.final else []
    tables = [data.dev, *(table for task in tasks for table in task.subsets.values())]
    dev_cosines, *cosines = encode_pairs(encoder, tables)
    dev = correlate(dev_cosines, np.asarray(data.dev["label"], dtype=np.float64))
    test = score_tasks(tasks, cosines, evaluation.aggregate) if tasks else None
    return _Scores(dev, dev_cosines, test, cosines)


def _phases(history: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The phases of a run that a `RankMonitor` watched."""
    rows = [row for row in history if "rank/energy" in row]
    if not rows:
        return None
    columns = [[row[name] for row in rows] for name in ("step", "rank/energy", "rank/spearman")]
    return dataclasses.asdict(find_phases(*columns))


def _plot_ranks(history: list[dict[str, Any]], run: Path, title: str) -> None:
    phases = _phases(history)
    if phases is not None:
        rows = [row for row in history if "rank/energy" in row]
        plot_rank_curves(rows, Phases(**phases), run / "plots" / "rank_curves.png", title)
        plot_rank_scores(rows, Phases(**phases), run / "plots" / "rank_against_dev.png", title)


def _print_report(
    tuned: _Scores,
    untuned: _Scores | None,
    history: list[dict[str, Any]],
    cfg: DictConfig,
    precision: Precision,
) -> None:
    def row(scores: _Scores) -> dict[str, float]:
        return {"dev": scores.dev["spearman"], **(spearman_row(scores.test) if scores.test else {})}

    rows = {"tuned": row(tuned)}
    if untuned is not None:
        rows = {"untuned": row(untuned), **rows}
        rows["gain"] = {name: value - rows["untuned"][name] for name, value in rows["tuned"].items()}
    elif history and history[0]["step"] == 0 and MONITOR in history[0]:
        rows = {"untuned": {"dev": history[0][MONITOR]}, **rows}
    evaluation = cfg.evaluation
    how = f"aggregate={evaluation.aggregate}, {precision}, text_edit={evaluation.text_edit}"
    print_scores(f"Spearman x 100 ({how})", rows)


def _check_checkpoints(run: Path) -> None:
    """Reject a run whose checkpoints are damaged, before hours of training lead up to the first use of one.

    Raises:
        CheckpointError: One is; the message says how the run starts again.
    """
    best = runs.best_checkpoint(run)
    try:
        last = runs.read_checkpoint(runs.last_checkpoint(run))
        states = [state for state in last.get("callbacks", {}).values() if isinstance(state, dict)]
        if any(state.get("best_model_path") for state in states):  # there has been a dev evaluation
            if not best.is_file():
                raise CheckpointError(f"{best} does not exist any more.")
            runs.read_checkpoint(best)
    except CheckpointError as error:
        raise CheckpointError(
            f"{error} The run cannot be resumed without it: restore it from a copy, or remove "
            f"{runs.run_name(best.parent)} to start the run again from the beginning with the same command."
        ) from error


def _continue_history(loggers: list[Logger], run: Path) -> None:
    step = runs.read_checkpoint(runs.last_checkpoint(run))["global_step"]
    log.info("resuming after step %d", step)
    for logger in loggers:
        if isinstance(logger, HistoryLogger):
            logger.continue_from(step)


def _build_loggers(cfg: DictConfig, run: Path) -> list[Logger]:
    return [build(f"logger.{name}", node, save_dir=str(run)) for name, node in cfg.logger.items()]


def _peak_memory() -> dict[str, int]:
    """Peak resident memory of the process and peak allocated memory of the GPU, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    peak = {"host": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit}
    return peak | ({"cuda": torch.cuda.max_memory_allocated()} if torch.cuda.is_available() else {})
