"""Callbacks of every run: throughput, random state, dev scores, duration."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback
from torch import distributed, nn
from transformers import PreTrainedConfig

from sts_lightning.core.distributed import Shard
from sts_lightning.core.errors import CheckpointError
from sts_lightning.data.collate import Batch
from sts_lightning.evaluation.dev_scores import MONITOR
from sts_lightning.models.text.tokenizer import TokenizedBatch

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
        pl_module.log("steps_per_second", len(self.recent) / seconds, prog_bar=True, batch_size=1)
        pl_module.log("tokens_per_second", counted / seconds, prog_bar=True, batch_size=1)

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
        self._restore: list[dict[str, Any]] | None = None
        self._device = torch.device("cpu")

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Remember the device, whose generator dropout draws from."""
        self._device = trainer.strategy.root_device

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the CPU's generator and of that of its GPU, of each process."""
        own: dict[str, Any] = {"cpu": torch.get_rng_state()}
        if self._device.type == "cuda":
            own["cuda"] = torch.cuda.get_rng_state(self._device)
        elif self._device.type == "mps":
            own["mps"] = torch.mps.get_rng_state()
        world_size = Shard.current().world_size
        states = [own] * world_size
        if world_size > 1:
            distributed.all_gather_object(states, own)
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
        """Restore the states before the first step of a resumed run.

        Raises:
            CheckpointError: The run had another number of processes, and has dropout, whose numbers each
                process draws for its own examples.
        """
        processes = Shard.current().world_size
        if self._restore is not None and len(self._restore) != processes:
            if has_dropout(pl_module):
                raise CheckpointError(
                    f"the checkpoint is of a run with {len(self._restore)} processes, not {processes}, and "
                    "the model has dropout, which would differ.",
                    key="trainer.devices",
                    hint="Resume it with as many as before; without dropout a run resumes with any number.",
                )
            self._restore = None  # nothing is drawn
        if self._restore is not None:
            own = self._restore[trainer.global_rank]
            torch.set_rng_state(own["cpu"].cpu())
            if "cuda" in own and self._device.type == "cuda":  # the run may resume on other hardware
                torch.cuda.set_rng_state(own["cuda"].cpu(), self._device)
            if "mps" in own and self._device.type == "mps":
                torch.mps.set_rng_state(own["mps"].cpu())
            self._restore = None


def has_dropout(module: nn.Module) -> bool:
    """Return whether a model draws random numbers in training, by its layers and its backbones' settings."""
    for part in module.modules():
        if not part.training:
            continue
        if isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0:
            return True
        config = getattr(part, "config", None)  # attention drops by a function, not a layer
        if isinstance(config, PreTrainedConfig) and any(
            "drop" in name and isinstance(value, int | float) and value > 0
            for name, value in config.to_dict().items()
        ):
            return True
    return False


class DevReport(Callback):
    """Logs one line per dev evaluation, for log files and terminals without a progress bar."""

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log step, loss and dev score."""
        metrics = trainer.callback_metrics
        if MONITOR in metrics:
            loss = f", loss {metrics['train/loss']:.4f}" if "train/loss" in metrics else ""
            log.info("step %d%s, dev Spearman %.2f", trainer.global_step, loss, metrics[MONITOR])


class RunClock(Callback):
    """Counts the seconds of a run from now on; one that is resumed adds those up to its last checkpoint.

    What an interrupted run did after that checkpoint is done again, and counted once. Lightning's ``Timer``
    leaves out reading the data, loading the weights and the final evaluation.
    """

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._before: float | None = 0.0

    @property
    def seconds(self) -> float | None:
        """Duration so far in seconds; None if the checkpoint that the run resumed from does not tell."""
        return None if self._before is None else self._before + time.monotonic() - self._started

    def state_dict(self) -> dict[str, Any]:
        """Return the duration up to a checkpoint."""
        return {"seconds": self.seconds}

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: Mapping[str, Any]
    ) -> None:
        """Add the duration up to the checkpoint that the run resumes from."""
        seconds = checkpoint["callbacks"].get(self.state_key, {}).get("seconds")
        self._before = float(seconds) if isinstance(seconds, int | float) else None
