"""What a run leaves on disk while it trains, such that it can resume after any interruption.

The last checkpoint of step N holds the history up to step N. Lightning's hooks come in this order:

1. ``on_train_batch_start``
2. ``on_train_batch_end`` of the callbacks. Subclasses of `Checkpoint` come after all others, in the order
   given; `RunRecorder` is the last of them, so that its checkpoint knows the best score so far.
3. The step's metrics go to the loggers.
4. If a dev evaluation is due: ``on_validation_start``, the dev metrics go to the loggers,
   ``on_validation_end``. Lightning does not repeat a skipped evaluation on resumption, so the checkpoint of
   such a step is written here and not in (2).
5. ``on_train_end`` after the last step; ``on_exception``, without a teardown, after an error.

A stopped run leaves in the next ``on_train_batch_start``, so that loggers get its last step (3).
"""

from __future__ import annotations

import contextlib
import logging
import math
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Checkpoint, WeightAveraging
from lightning.pytorch.plugins.io import TorchCheckpointIO
from lightning.pytorch.trainer.states import TrainerFn

from sts_lightning.core.errors import InterruptedRunError
from sts_lightning.core.processes import is_first_process
from sts_lightning.core.signals import StopRequest, listen_again, signal_name
from sts_lightning.models.loading.folder import write_model
from sts_lightning.runs.folder import RunFolder, write_checkpoint
from sts_lightning.runs.predictions import save_dev

log = logging.getLogger(__name__)

PATIENCE = 10
"""Seconds to wait for the end of a process that has been killed."""

HISTORY = "history"
"""Key of checkpoints."""

WRITE_SECONDS = 2.0
"""Least seconds between two writes of the history."""

WRITE_SHARE = 0.02
"""Largest share of the time that goes into writing the history, which is written as a whole."""


class RunRecorder(Checkpoint):
    """Writes the history, and the checkpoint to resume from: periodically, and on a stop signal.

    On Ctrl-C, SIGTERM, SIGHUP, SIGUSR1 or SIGUSR2 (see `core.signals`) the current step is finished, the
    state is saved, and the user reads how to resume; the same signal again stops at once.

    Args:
        run: The run folder.
        every: Steps between checkpoints.
        log_every: Steps between rows of the history.
        how_to_resume: The command that resumes the run.
    """

    def __init__(self, run: RunFolder, every: int, log_every: int, how_to_resume: str) -> None:
        self.run = run
        self.every = every
        self.log_every = log_every
        self.how_to_resume = how_to_resume
        self.stop = StopRequest(self._announce)
        self._agreed: signal.Signals | None = None  # a stop that every process knows of
        self._due = False
        self._saved_step: int | None = None
        self._ended_early = False
        self._next_write = 0.0

    def state_dict(self) -> dict[str, bool]:
        """Return whether a callback, such as early stopping, had ended the training."""
        return {"ended_early": self._ended_early}

    def load_state_dict(self, state_dict: dict[str, bool]) -> None:
        """Restore what `state_dict` returned."""
        self._ended_early = state_dict["ended_early"]

    def on_save_checkpoint(self, trainer: pl.Trainer, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Store the history."""
        checkpoint[HISTORY] = pl_module.history

    def on_load_checkpoint(self, trainer: pl.Trainer, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Take over the history, which 0.3 has in its file alone, and let a longer run go on.

        A checkpoint of `on_train_end` is taken for one of the evaluation before. Lightning would count an
        epoch without batches, and the last steps of one that was cut as a whole.
        """
        step, rows = checkpoint["global_step"], checkpoint.get(HISTORY)
        if rows is None:
            rows = {row["step"]: row for row in self.run.history() if row["step"] <= step}
        pl_module.history = rows
        loops = checkpoint["loops"]["fit_loop"]
        epochs = loops["epoch_progress"]
        if epochs["total"]["completed"] == epochs["total"]["ready"]:
            for progress in epochs.values():
                progress["processed"] -= 1
                progress["completed"] -= 1
            loops["epoch_loop.state_dict"]["_batches_that_stepped"] -= 1

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Let a training that had ended early stay so."""
        trainer.should_stop = trainer.should_stop or self._ended_early

    def _announce(self, number: signal.Signals) -> None:
        if is_first_process():
            text = "%s: stopping after this step or dev evaluation; once more to stop at once."
            log.warning(text, signal_name(number))

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Listen to signals.

        Not earlier: Lightning wraps the SIGTERM handlers that are installed before this hook in another
        one, which ends the run without a message.

        The first rate is that of the schedule, which a longer run has stretched since it was saved.
        """
        self.stop.listen()
        schedulers: list[Any] = [config.scheduler for config in trainer.lr_scheduler_configs]
        for scheduler in schedulers:
            rates = zip(scheduler.base_lrs, scheduler.lr_lambdas, strict=True)
            for group, (base, factor) in zip(scheduler.optimizer.param_groups, rates, strict=True):
                group["lr"] = base * factor(scheduler.last_epoch)

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Leave a run that was stopped, once the step before is saved and logged."""
        if trainer.global_step == self._saved_step:
            self._agree(trainer)
            self._leave_if_stopped(trainer)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Save if a checkpoint is due, unless a dev evaluation comes first."""
        step = trainer.global_step
        self._record(trainer, pl_module, due=step % self.log_every == 0 or trainer.should_stop)
        self._agree(trainer)
        self._due |= step % self.every == 0 or self._agreed is not None
        batches = trainer.fit_loop.total_batch_idx + 1
        evaluation_next = batches % (trainer.val_check_batch or math.inf) == 0
        if self._due and not evaluation_next:
            self._save(trainer)

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Take SIGTERM back from Lightning, which ends an evaluation outside `fit` as if it were complete."""
        if trainer.state.fn == TrainerFn.VALIDATING:
            listen_again()

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Save after a dev evaluation."""
        self._record(trainer, pl_module, due=True)
        if trainer.state.fn == TrainerFn.FITTING:
            self._agree(trainer)
            if self._due or self._agreed is not None:
                self._save(trainer)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Save the end of training, so that a run killed in its final evaluation repeats only that."""
        self._agree(trainer)
        self._save(trainer)
        self._write(trainer)
        self.stop.restore()
        self._leave_if_stopped(trainer)

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Restore the signal handlers, and end the other processes before loggers take their time."""
        self.stop.restore()
        stop_others(trainer)
        with contextlib.suppress(OSError):  # of a full disk, which may be the exception itself
            self._write(trainer)

    def _agree(self, trainer: pl.Trainer) -> None:
        """Let all processes know of a stop, which a signal may bring to one of them a step earlier.

        Only what is agreed may decide what a process does next: another one that has not heard of the stop
        would wait for it in the next exchange.
        """
        number = self.stop.number
        if trainer.world_size > 1 and trainer.strategy.reduce_boolean_decision(number is not None, all=False):
            number = number or signal.SIGTERM
        self._agreed = number

    def _record(self, trainer: pl.Trainer, module: Any, due: bool) -> None:
        """Add to the history what has been logged since the last call, if a row is due."""
        logged, module.logged = module.logged, {}
        if due:
            logged.pop("step", None)
            single = {name: float(torch.as_tensor(value).float()) for name, value in logged.items()}
            module.add_row(single, trainer.global_step)
            if time.monotonic() >= self._next_write:
                self._write(trainer)

    def _write(self, trainer: pl.Trainer) -> None:
        module: Any = trainer.lightning_module
        if trainer.is_global_zero and module.history:
            started = time.monotonic()
            self.run.save_history(module.history.values())
            ended = time.monotonic()
            self._next_write = ended + max(WRITE_SECONDS, (ended - started) / WRITE_SHARE)

    def _save(self, trainer: pl.Trainer) -> None:
        self._ended_early = trainer.should_stop
        trainer.save_checkpoint(self.run.checkpoint("last"))
        self._due = False
        self._saved_step = trainer.global_step

    def _leave_if_stopped(self, trainer: pl.Trainer) -> None:
        if self._agreed is not None:
            error = InterruptedRunError(
                f"stopped by {signal_name(self._agreed)} after step {trainer.global_step}. "
                f"Resume with: {self.how_to_resume}",
                self._agreed,
            )
            if not trainer.is_global_zero:  # the first says it; launchers kill it if another one fails before
                error.exit_status = 0
            raise error


def stop_others(trainer: pl.Trainer) -> None:
    """End the other processes that this one has started on its machine, at once.

    Once this process has failed they would wait for it in the middle of an exchange, where no other signal
    reaches them. They write nothing. Lightning forgets them too: every five seconds it looks whether one has
    failed and kills this process then, whatever it still has to say or to hand to its loggers.
    """
    processes: list[subprocess.Popen[bytes]] = getattr(trainer.strategy.launcher, "procs", [])
    for process in processes:
        process.kill()
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):  # one that a driver holds on to
            process.wait(PATIENCE)
    processes.clear()


class BestCheckpoint(Checkpoint):
    """Keeps the checkpoint of the best dev score, and what these weights give on the dev data.

    Lightning's own callback forgets the best score if the folder was moved before the run is resumed, so that
    the next evaluation would replace the best weights by worse ones. It also never keeps weights before the
    first step.

    Args:
        run: The run folder.
        monitor: Name of the score; higher is better.
        weights_only: Whether the checkpoint is to choose weights from and not to resume from.
        untuned: Whether the weights before training are a candidate, by their score in the
            `Trainer.validate` before `Trainer.fit`.
    """

    def __init__(self, run: RunFolder, monitor: str, weights_only: bool, untuned: bool) -> None:
        self.run = run
        self.monitor = monitor
        self.weights_only = weights_only
        self.untuned = untuned
        self.best: float | None = None
        self._before: float | None = None

    def state_dict(self) -> dict[str, Any]:
        """Return the best score, by the name that Lightning's own callback has for it."""
        return {"best_model_score": self.best}

    def on_load_checkpoint(self, trainer: pl.Trainer, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Restore the best score; in checkpoints of 0.3 the key has the arguments of Lightning's callback."""
        states = checkpoint["callbacks"].items()
        [score] = [state["best_model_score"] for key, state in states if key.startswith(type(self).__name__)]
        self.best = None if score is None else float(score)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Save if a score is the best so far, and note that before training."""
        score = float(trainer.callback_metrics[self.monitor])
        if trainer.state.fn == TrainerFn.FITTING:
            self._compare(trainer, score)
        elif trainer.global_step == 0:
            self._before = score
            self._save_dev(trainer, selected=False)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Save the weights before training if they are a candidate."""
        if self.untuned and self._before is not None and trainer.global_step == 0:
            self._compare(trainer, self._before)

    def _compare(self, trainer: pl.Trainer, score: float) -> None:
        if self.best is None or score > self.best:
            self.best = score
            trainer.save_checkpoint(self.run.checkpoint("best"), self.weights_only)
            self._save_dev(trainer, selected=True)

    def _save_dev(self, trainer: pl.Trainer, selected: bool) -> None:
        module: Any = trainer.lightning_module
        if trainer.is_global_zero:
            save_dev(self.run, trainer.global_step, module.dev_found, selected)


class KeptWeights(Checkpoint):
    """Writes a model folder before training and at regular intervals, and keeps all of them.

    Args:
        run: The run folder.
        every: Steps between the weights that are kept, at least 1.
    """

    def __init__(self, run: RunFolder, every: int) -> None:
        self.run = run
        self.every = every

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Keep the untrained weights."""
        if trainer.global_step == 0:
            self._keep(trainer, pl_module)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Keep the weights of a step that is due."""
        if trainer.global_step % self.every == 0:
            self._keep(trainer, pl_module)

    def _keep(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        averages = [each for each in trainer.callbacks if isinstance(each, WeightAveraging)]  # type: ignore[attr-defined]
        for average in averages:  # the dev scores are those of the averaged weights
            average._swap_models(pl_module)
        step = trainer.global_step
        module: Any = pl_module
        if trainer.is_global_zero:
            write_model(module.encoder, self.run.model(step), module.loss.state_dict(), step)
        for average in averages:
            average._swap_models(pl_module)


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes as `write_checkpoint` does; Lightning goes by way of /tmp, which may be another file system."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Write a checkpoint.

        Raises:
            OSError: It could not be written; the earlier file is unchanged.
        """
        write_checkpoint(Path(path), checkpoint)
