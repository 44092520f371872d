"""Callbacks of every run: throughput, random state, duration; and that of ``debug=overfit``."""

from __future__ import annotations

import logging
import time
from collections import deque
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor, distributed

from sts_lightning.core.processes import Shard
from sts_lightning.data.collate import Batch
from sts_lightning.models.text.chunks import TokenizedBatch

log = logging.getLogger(__name__)


class Throughput(Callback):
    """Logs steps and tokens (without padding) per second of training time.

    Time in dev evaluations and checkpoints is not counted. Every process is assumed to embed as many tokens
    as the first. A GPU is still at work on a step when its Python code has ended: there a step counts once
    the events around it have passed, usually in the step after, without waiting for the GPU.

    Args:
        window: Number of steps to average over.
    """

    def __init__(self, window: int = 20) -> None:
        self.recent: deque[tuple[float, int]] = deque(maxlen=window)
        self._running: deque[tuple[torch.cuda.Event, torch.cuda.Event, int]] = deque()

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Start the clock."""
        self._start = time.perf_counter()
        if pl_module.device.type == "cuda":
            self._first_event = torch.cuda.Event(enable_timing=True)
            self._first_event.record()

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
        if pl_module.device.type == "cuda":
            self._collect_events(tokens)
        else:
            self.recent.append((time.perf_counter() - self._start, tokens))
        seconds = sum(duration for duration, _ in self.recent)
        counted = sum(count for _, count in self.recent)
        rates = {"steps_per_second": len(self.recent) / seconds, "tokens_per_second": counted / seconds}
        for name, rate in rates.items():  # tensors on the host: Lightning copies plain numbers to the GPU
            pl_module.log(name, torch.tensor(rate), prog_bar=True, batch_size=1)

    def _collect_events(self, tokens: int) -> None:
        last = torch.cuda.Event(enable_timing=True)
        last.record()
        self._running.append((self._first_event, last, tokens))
        if not self.recent:
            self._running[0][1].synchronize()
        while self._running and self._running[0][1].query():
            first, last, count = self._running.popleft()
            self.recent.append((first.elapsed_time(last) / 1000, count))


class RandomState(Callback):
    """Gives each process its own random numbers, and stores the generators' states in checkpoints.

    A resumed run then draws the same numbers as an uninterrupted one.
    """

    def __init__(self) -> None:
        self._restore: list[dict[str, Tensor]] | None = None
        self._device = torch.device("cpu")

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Remember the device, whose generator dropout draws from."""
        self._device = trainer.strategy.root_device

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the CPU's generator and of that of its GPU, of each process."""
        state = random_states(self._device)
        world_size = Shard.current().world_size
        states = [state] * world_size
        if world_size > 1:
            distributed.all_gather_object(states, state)
        return {"processes": states}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep the states until training starts, since the set-up draws numbers too."""
        self._restore = state_dict["processes"]

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Seed the processes differently, so that their dropout differs."""
        if trainer.global_rank > 0:
            torch.manual_seed(torch.initial_seed() + trainer.global_rank)

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Restore the states before the first step of a resumed run."""
        states, self._restore = self._restore, None
        if states is None:
            return
        if len(states) != Shard.current().world_size:
            # Each process draws the dropout of its examples: no state fits another division of the batch.
            log.warning(
                "resuming a run of %d processes: from here on dropout draws other numbers.", len(states)
            )
            return
        restore_random_states(states[trainer.global_rank], self._device)


def random_states(device: torch.device) -> dict[str, Tensor]:
    """Return the states of the random generators of the CPU and of a GPU."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        states["mps"] = torch.mps.get_rng_state()
    return states


def restore_random_states(states: dict[str, Tensor], device: torch.device) -> None:
    """Set the random generators to what `random_states` returned, perhaps on other hardware."""
    torch.set_rng_state(states["cpu"].cpu())
    if "cuda" in states and device.type == "cuda":
        torch.cuda.set_rng_state(states["cuda"].cpu(), device)
    if "mps" in states and device.type == "mps":
        torch.mps.set_rng_state(states["mps"].cpu())


class RunClock(Callback):
    """Counts the seconds of a run from now on; one that is resumed adds those up to its last checkpoint.

    What an interrupted run did after that checkpoint is done again, and counted once. Lightning's ``Timer``
    leaves out reading the data, loading the weights and the final evaluation.
    """

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._before = 0.0

    @property
    def seconds(self) -> float:
        """Duration so far in seconds."""
        return self._before + time.monotonic() - self._started

    def state_dict(self) -> dict[str, Any]:
        """Return the duration up to a checkpoint."""
        return {"seconds": self.seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Add the duration up to the checkpoint that the run resumes from."""
        self._before = state_dict["seconds"]


class Overfit(Callback):
    """Trains on the batches of the first epoch in every epoch, without the dropout of the transformer."""

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Set both; Lightning keeps the mode of each module over a dev evaluation."""
        trainer.train_dataloader.same_batches = True
        pl_module.encoder.backbone.eval()
