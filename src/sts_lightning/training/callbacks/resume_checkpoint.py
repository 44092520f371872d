"""What a run leaves on disk while it trains, such that it can resume after any interruption.

Whenever the last checkpoint holds step N, the history holds the rows up to step N. Lightning's hooks
come in this order, which decides when each file can be written:

1. ``on_train_batch_start``
2. ``on_train_batch_end`` of the callbacks. Subclasses of `Checkpoint` come after all others, in the order
   given; `RunRecorder` is the last of them, so that its checkpoint knows the best score so far.
3. The step's metrics go to the loggers: after the checkpoint of (2), which therefore needs a provisional row.
4. If a dev evaluation is due: ``on_validation_start``, the dev metrics go to the loggers,
   ``on_validation_end``. Lightning does not repeat a skipped evaluation on resumption, so the checkpoint of
   such a step is written here and not in (2).
5. ``on_train_end`` after the last step; ``on_exception``, without a teardown, after an error.

A stopped run therefore leaves in the next ``on_train_batch_start``, when the row of its last step is final.
"""

from __future__ import annotations

import contextlib
import logging
import math
import signal
import subprocess
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.strategies.launchers import _SubprocessScriptLauncher
from lightning.pytorch.trainer.states import TrainerFn

from sts_lightning.core.errors import InterruptedRunError
from sts_lightning.core.processes import is_first_process
from sts_lightning.core.signals import KILL, StopRequest, listen_again, signal_name
from sts_lightning.training.callbacks.history import HistoryLogger

log = logging.getLogger(__name__)

PATIENCE = 10
"""Seconds to wait for the end of a process that has been killed."""


class RunRecorder(Checkpoint):
    """Saves the checkpoint to resume from and the history up to it: periodically, and on a stop signal.

    On Ctrl-C, SIGTERM, SIGHUP, SIGUSR1 or SIGUSR2 (see `core.signals`) the current step is finished, the
    state is saved, and the user reads how to resume; the same signal again stops at once.

    Args:
        path: The checkpoint file.
        every: Steps between checkpoints.
        log_every: Steps between logged rows.
        how_to_resume: The command that resumes the run.
    """

    def __init__(self, path: Path, every: int, log_every: int, how_to_resume: str) -> None:
        self.path = path
        self.every = every
        self.log_every = log_every
        self.how_to_resume = how_to_resume
        self.stop = StopRequest(self._announce)
        self._agreed: signal.Signals | None = None  # a stop that every process knows of
        self._due = False
        self._evaluating = False
        self._saved_step: int | None = None
        self._ended_early = False

    def state_dict(self) -> dict[str, bool]:
        """Return whether a callback, such as early stopping, had ended the training."""
        return {"ended_early": self._ended_early}

    def load_state_dict(self, state_dict: dict[str, bool]) -> None:
        """Restore what `state_dict` returned."""
        self._ended_early = state_dict["ended_early"]

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Take a checkpoint of `on_train_end` for one of the evaluation before: a longer run goes on there.

        Lightning would count an epoch without batches, and the last steps of one that was cut as a whole.
        """
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
        if not is_first_process():
            return
        when = "the dev evaluation that is running" if self._evaluating else "this step"
        log.warning("%s: stopping after %s; once more to stop at once.", signal_name(number), when)

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
        self._agree(trainer)
        self._due |= trainer.global_step % self.every == 0 or self._agreed is not None
        batches = trainer.fit_loop.total_batch_idx + 1
        evaluation_next = batches % (trainer.val_check_batch or math.inf) == 0
        if self._due and not evaluation_next:
            self._log_provisional(trainer)
            self._save(trainer)

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Take SIGTERM back from Lightning, which ends an evaluation outside `fit` as if it were complete."""
        self._evaluating = True
        if trainer.state.fn == TrainerFn.VALIDATING:
            listen_again()

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Save after a dev evaluation."""
        self._evaluating = False
        if trainer.state.fn == TrainerFn.FITTING:
            self._agree(trainer)
            if self._due or self._agreed is not None:
                self._save(trainer)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Save the end of training, so that a run killed in its final evaluation repeats only that."""
        self._agree(trainer)
        self._save(trainer)
        self.stop.restore()
        self._leave_if_stopped(trainer)

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Restore the signal handlers, and end the other processes before loggers take their time."""
        self.stop.restore()
        stop_others(trainer)

    def _agree(self, trainer: pl.Trainer) -> None:
        """Let all processes know of a stop, which a signal may bring to one of them a step earlier.

        Only what is agreed may decide what a process does next: another one that has not heard of the stop
        would wait for it in the next exchange.
        """
        number = self.stop.number
        if trainer.world_size > 1 and trainer.strategy.reduce_boolean_decision(number is not None, all=False):
            number = number or signal.SIGTERM
        self._agreed = number

    def _log_provisional(self, trainer: pl.Trainer) -> None:
        """Give the history the row of a step that Lightning logs only after the checkpoint."""
        if trainer.global_step % self.log_every == 0:
            row = {
                name: float(value)
                for name, value in trainer.logged_metrics.items()
                if name != "step" and not name.startswith("dev/")  # from the latest dev evaluation
            }
            for logger in _histories(trainer):
                logger.log_provisional(row, trainer.global_step)

    def _save(self, trainer: pl.Trainer) -> None:
        for logger in _histories(trainer):  # first, so that a checkpoint always finds its rows
            logger.flush()
        self._ended_early = trainer.should_stop
        trainer.save_checkpoint(self.path)
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


def _histories(trainer: pl.Trainer) -> list[HistoryLogger]:
    return [logger for logger in trainer.loggers if isinstance(logger, HistoryLogger)]


def stop_others(trainer: pl.Trainer) -> None:
    """End the other processes that this one has started on its machine, at once.

    Once this process has failed they would wait for it in the middle of an exchange, where no other signal
    reaches them. They write nothing. Lightning forgets them too: every five seconds it looks whether one has
    failed and kills this process then, whatever it still has to say or to hand to its loggers.
    """
    launcher = trainer.strategy.launcher
    if isinstance(launcher, _SubprocessScriptLauncher):
        launcher.kill(KILL)
        for process in launcher.procs:
            with contextlib.suppress(subprocess.TimeoutExpired):  # one that a driver holds on to
                process.wait(PATIENCE)
        launcher.procs.clear()
