"""Callbacks: throughput, random state, orderly interruption."""

from __future__ import annotations

import logging
import math
import signal
import threading
import time
from collections import deque
from pathlib import Path
from types import FrameType
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback, Checkpoint
from lightning.pytorch.trainer.states import TrainerFn
from torch import distributed

from sts_lightning.data.collate import Batch
from sts_lightning.distributed import Share
from sts_lightning.errors import CheckpointError, InterruptedRunError
from sts_lightning.interrupts import Stopped, signal_name, take_back
from sts_lightning.models.tokenized_batch import TokenizedBatch
from sts_lightning.training.history import HistoryLogger
from sts_lightning.training.module import MONITOR

log = logging.getLogger(__name__)


class Throughput(Callback):
    """Logs steps and real tokens (padding not counted) per second of training time.

    Dev evaluation and checkpoints are not counted; of several processes, all count as much as the first.

    Args:
        window: Steps to average over.
    """

    def __init__(self, window: int = 20) -> None:
        self.recent: deque[tuple[float, int]] = deque(maxlen=window)

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Start the clock."""
        self._start = time.perf_counter()

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Batch[TokenizedBatch],
        batch_idx: int,
    ) -> None:
        """Stop the clock and log."""
        tokens = batch.rows.num_tokens * trainer.world_size
        self.recent.append((time.perf_counter() - self._start, tokens))
        seconds = sum(duration for duration, _ in self.recent)
        counted = sum(count for _, count in self.recent)
        pl_module.log("steps_per_second", len(self.recent) / seconds, prog_bar=True, batch_size=1)
        pl_module.log("tokens_per_second", counted / seconds, prog_bar=True, batch_size=1)


class RandomState(Callback):
    """Gives each process random numbers of its own, and keeps their state in checkpoints.

    A resumed run then draws what it would have drawn.
    """

    def __init__(self) -> None:
        self._restore: list[dict[str, Any]] | None = None

    def state_dict(self) -> dict[str, Any]:
        """States of the CPU generator and of the CUDA generators, of each process."""
        cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        own = {"cpu": torch.get_rng_state(), "cuda": cuda}
        share = Share.current()
        states = [own] * share.processes
        if share.processes > 1:
            distributed.all_gather_object(states, own)
        return {"processes": states}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Remember the states until training starts, since the set-up draws numbers too.

        Raises:
            CheckpointError: They are those of another number of processes.
        """
        states = state_dict["processes"]
        if len(states) != Share.current().processes:
            raise CheckpointError(
                f"the checkpoint is of a run with {len(states)} processes, not {Share.current().processes}."
            )
        self._restore = states

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Let dropout differ between processes."""
        if trainer.global_rank > 0:
            torch.manual_seed(torch.initial_seed() + trainer.global_rank)

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Set the states before the first step of a resumed run."""
        if self._restore is not None:
            own = self._restore[trainer.global_rank]
            torch.set_rng_state(own["cpu"].cpu())
            if own["cuda"]:
                torch.cuda.set_rng_state_all([state.cpu() for state in own["cuda"]])
            self._restore = None


class DevReport(Callback):
    """Logs one line for each dev evaluation, for terminals and log files without a progress bar."""

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log step, loss and dev score."""
        metrics = trainer.callback_metrics
        if MONITOR in metrics:
            loss = f", loss {metrics['train/loss']:.4f}" if "train/loss" in metrics else ""
            log.info("step %d%s, dev Spearman %.2f", trainer.global_step, loss, metrics[MONITOR])


class LastCheckpoint(Checkpoint):
    """Saves the state to resume from: every so many steps, and when a signal stops the run.

    On Ctrl-C, SIGTERM or SIGUSR2 (SLURM's warning that time is up, as submitit asks for it) the step is
    finished, the state saved, and the user told how to resume; the same signal once more stops at once.
    Where a dev evaluation is due, the state is saved after it: Lightning would not make up for it on
    resumption. (Lightning runs subclasses of `Checkpoint` after all other callbacks, in the order given;
    this one has to come after the one that keeps the best weights.)

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
        self.stopped_by: signal.Signals | None = None
        self._due = False
        self._evaluating = False
        self._saved_step: int | None = None
        self._previous: dict[signal.Signals, Any] = {}

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Listen to the signals, which only the main thread can.

        Here and not earlier, since Lightning puts its own handler of SIGTERM in front of those that it finds
        before this hook, and would end the run without a word.
        """
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2):
                self._previous[number] = signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.stopped_by is not None:
            if self.stopped_by == number:
                raise Stopped(self.stopped_by)
            return  # a cluster may send several kinds
        self.stopped_by = signal.Signals(number)
        when = "the dev evaluation that is running" if self._evaluating else "this step"
        log.warning("%s: stopping after %s; once more to stop at once.", signal_name(self.stopped_by), when)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Save if it is time, unless a dev evaluation comes first."""
        self._agree(trainer)
        self._due |= trainer.global_step % self.every == 0 or self.stopped_by is not None
        batches = trainer.fit_loop.total_batch_idx + 1
        evaluation_next = batches % (trainer.val_check_batch or math.inf) == 0
        if self._due and not evaluation_next:
            self._expect_row(trainer)
            self._save(trainer)

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Keep SIGTERM from Lightning, which ends an evaluation outside `fit` as if it were done."""
        self._evaluating = True
        if trainer.state.fn == TrainerFn.VALIDATING:
            take_back()

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Save after a dev evaluation."""
        self._evaluating = False
        if trainer.state.fn == TrainerFn.FITTING:
            self._agree(trainer)
            if self._due or self.stopped_by is not None:
                self._save(trainer)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Save the end of training, so that a run killed in its final evaluation only repeats that."""
        self._agree(trainer)
        self._save(trainer)
        self._give_back()
        self._leave_if_stopped(trainer)

    def _agree(self, trainer: pl.Trainer) -> None:
        """Stop all of several processes at the same step; one has got the signal a step before another."""
        if trainer.world_size > 1:
            stop = trainer.strategy.reduce_boolean_decision(self.stopped_by is not None, all=False)
            self.stopped_by = self.stopped_by or (signal.SIGTERM if stop else None)

    def _expect_row(self, trainer: pl.Trainer) -> None:
        """Announce the row of a step, which Lightning logs after its last hook, so after the checkpoint."""
        if trainer.global_step % self.log_every == 0:
            row = {
                name: float(value)
                for name, value in trainer.logged_metrics.items()
                if name != "step" and not name.startswith("dev/")  # of the latest dev evaluation
            }
            for logger in _histories(trainer):
                logger.expect(row, trainer.global_step)

    def _save(self, trainer: pl.Trainer) -> None:
        for logger in _histories(trainer):  # first: a run killed after a checkpoint has its rows up to there
            logger.flush()
        trainer.save_checkpoint(self.path)
        self._due = False
        self._saved_step = trainer.global_step

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Leave if asked to; here, since the metrics of a step are logged after its last hook."""
        if trainer.global_step == self._saved_step:
            self._leave_if_stopped(trainer)

    def _leave_if_stopped(self, trainer: pl.Trainer) -> None:
        if self.stopped_by is not None:
            raise InterruptedRunError(
                f"stopped by {signal_name(self.stopped_by)} after step {trainer.global_step}. "
                f"Resume with: {self.how_to_resume}",
                self.stopped_by,
            )

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Give the signals back; Lightning does not call `teardown` after an error."""
        self._give_back()

    def _give_back(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()


def _histories(trainer: pl.Trainer) -> list[HistoryLogger]:
    return [logger for logger in trainer.loggers if isinstance(logger, HistoryLogger)]
