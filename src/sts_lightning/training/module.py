"""LightningModule of encoder, loss and optimiser."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

import lightning.pytorch as pl
import numpy as np
import torch
from lightning.pytorch.core.optimizer import LightningOptimizer
from lightning.pytorch.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor, distributed, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from sts_lightning.core.choices import Frozen
from sts_lightning.core.errors import TrainingError, counted
from sts_lightning.core.processes import Shard
from sts_lightning.data.collate import Batch
from sts_lightning.data.ranking import Ranking
from sts_lightning.data.table import gold_of, identical_pairs
from sts_lightning.evaluation.dev_scores import DEV_SCORE, monitor_of, title_of
from sts_lightning.evaluation.retrieval import mean_scores, score_queries
from sts_lightning.evaluation.statistics import correlate, pair_cosines
from sts_lightning.losses.base import Loss, check_scalar
from sts_lightning.losses.joint import JointLoss
from sts_lightning.models.compute.budget import TokenBudget, is_out_of_memory
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.checks import check_weights
from sts_lightning.models.text.chunks import TokenizedBatch
from sts_lightning.runs.predictions import OfTask
from sts_lightning.training.callbacks.progress import random_states, restore_random_states
from sts_lightning.training.gather import gather_examples

if TYPE_CHECKING:
    from sts_lightning.regularizers.base import Regularizer
    from sts_lightning.training.auxiliary.base import AuxiliaryModel, Step

log = logging.getLogger(__name__)

MICRO_BATCH = "micro_batch"
"""Key of checkpoints."""

CPU_EXAMPLES = 32
"""Micro batch of ``auto`` on a CPU, where Linux kills a process instead of denying it memory."""

UNLIMITED = 2**62
"""What a process says in `STSModule.agree` whose memory has sufficed."""

REMEDY = (
    "trainer.micro_batch_size=16 or a smaller number bounds the memory and keeps the gradient of the whole "
    "batch; trainer.gradient_checkpointing=true saves more."
)


class ShortageElsewhere(torch.OutOfMemoryError):
    """Memory ran out in the step of another process, which is to be repeated.

    Args:
        tokens: Padded tokens of the micro batches of all processes then; 0: there is no smaller number.
    """

    def __init__(self, tokens: int) -> None:
        super().__init__("memory ran out in another process")
        self.tokens = tokens


class STSModule(pl.LightningModule):
    """Trains a `SentenceEncoder` with a loss on batches of views, and evaluates it on dev pairs.

    Checkpoints hold trainable parameters and buffers, not frozen weights.

    Args:
        encoder: The encoder to train.
        loss: The loss head; its parameters train with the encoder.
        optimizer: Factory of the optimiser of this module.
        schedule: Factory of its learning-rate schedule.
        frozen: What of the encoder is frozen, see `Frozen`.
        extra_saved: Names of frozen weights that checkpoints hold nevertheless, since they do not come from
            the model's own files.
        regularizer: Term added to the loss.
        auxiliary: Auxiliary model, which supplies the loss with an argument.
        micro_batch_size: Number of examples whose activations are in memory at a time, by a gradient cache
            (see `SentenceEncoder.forward`); None for all. With ``auto`` it is the whole batch until memory
            runs out in a step, and on a CPU `CPU_EXAMPLES`.
        seed: Seed of random numbers that belong to the examples.

    Attributes:
        budget: Padded tokens of a micro batch of each process, which a step lowers in which memory runs out.
            They are in checkpoints, since other micro batches draw other dropout.
        dev_found: What the latest dev evaluation found of each pair, or query.
        history: Metrics of each logged step, by its number, which `RunRecorder` writes.
        logged: What has been logged since the last row.
        steps_peak: Peak of the GPU's allocated memory in bytes in the steps before the latest dev evaluation.
    """

    def __init__(
        self,
        encoder: SentenceEncoder,
        loss: Loss,
        optimizer: Callable[[pl.LightningModule], Optimizer],
        schedule: Callable[[Optimizer], LRScheduler],
        frozen: Frozen = "none",
        extra_saved: Set[str] = frozenset(),
        regularizer: Regularizer | None = None,
        micro_batch_size: int | Literal["auto"] | None = None,
        auxiliary: AuxiliaryModel | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.loss = loss
        self.make_optimizer = optimizer
        self.make_schedule = schedule
        self.frozen: Frozen = frozen
        self.extra_saved = extra_saved
        self.regularizer = regularizer
        self.auxiliary = auxiliary
        self.micro_batch_size = micro_batch_size
        self.budget = TokenBudget()
        self.seed = seed
        self.steps_peak = 0
        self.history: dict[int, dict[str, float]] = {}
        self.logged: dict[str, Any] = {}
        self._dev_found: list[np.ndarray] = []
        self.dev_found: OfTask
        self._unread: tuple[Tensor, torch.cuda.Event | None, int] | None = None
        self._last_loss: float | None = None
        self._finished: Step | None = None
        self._batch: Batch[TokenizedBatch]
        self._group: Any = None
        self.strict_loading = False  # frozen weights are absent; on_load_checkpoint checks the others
        self.train()  # encoders are made in evaluation mode, and Lightning's fit keeps the mode it finds

    def train(self, mode: bool = True) -> Self:
        """Set the mode; an encoder that is frozen without dropout stays in evaluation mode."""
        super().train(mode)
        if self.frozen == "encoder":
            self.encoder.eval()
        return self

    def on_train_start(self) -> None:
        """Prepare auxiliary models, the agreement of processes, and the count of memory."""
        if self.auxiliary is not None:
            self.auxiliary.place(self.device)
        if Shard.current().world_size > 1:
            # Of the hosts: an agreement does not wait for what the GPUs compute.
            self._group = distributed.new_group(backend="gloo")
        self.steps_peak = 0  # an evaluation before the first step has set it
        if self.device.type == "cuda":  # on other devices a call would start CUDA, where there is a card
            torch.cuda.reset_peak_memory_stats()  # the peak of a run is that of its steps

    def on_validation_start(self) -> None:
        """Check the last loss; read the peak of the steps, to which an evaluation does not belong."""
        self._read_loss()
        if self.device.type == "cuda":
            self.steps_peak = max(self.steps_peak, torch.cuda.max_memory_allocated())

    def on_validation_end(self) -> None:
        """Measure the following steps alone."""
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()

    def on_before_batch_transfer(
        self, batch: Batch[TokenizedBatch], dataloader_idx: int
    ) -> Batch[TokenizedBatch]:
        """Divide a training batch into micro batches on the host, where reading lengths takes no waiting."""
        return replace(batch, rows=self.chunks_of(batch)[0])

    def chunks_of(self, batch: Batch[TokenizedBatch]) -> tuple[TokenizedBatch, int]:
        """Return the rows of this process in chunks, and how many of the last ones are not recomputed.

        These are the chunks of one micro batch, or all, if the batch is no larger than that.
        """
        examples, tokens = self.micro_batch_size, self.budget.tokens
        if examples == "auto" and self.device.type == "cpu":
            examples = CPU_EXAMPLES
        if not self.training:
            return batch.rows, len(batch.rows.chunks)
        per_example, most, fits = self.encoder.tokenizer.rows_of(batch.num_views), None, True
        if isinstance(examples, int):
            share = max(1, examples // batch.shard.world_size)
            most, fits = share * per_example, batch.shard.size_of(batch.size) <= share
        if tokens is not None:
            # An auxiliary model may embed further rows before the backward pass.
            needed = 1 + self._extra_views / per_example
            fits = fits and batch.rows.padded_tokens * needed <= tokens
        rows = batch.rows.limited(most, tokens)
        if fits:
            return rows, len(rows.chunks)
        # What an auxiliary model embeds with gradient comes before the encoder's chunks in the backward pass.
        return rows, 0 if self._extra_views else rows.last_within(most, tokens)

    @property
    def _extra_views(self) -> int:
        return 0 if self.auxiliary is None else self.auxiliary.extra_views

    def embed_views(self, batch: Batch[TokenizedBatch]) -> Tensor:
        """Return the embeddings of the whole batch of all processes, shape (V, B, D), float32."""
        return self._gather(self.encoder(*self.chunks_of(batch)), batch)

    def _gather(self, vectors: Tensor, batch: Batch[TokenizedBatch]) -> Tensor:
        """Gather the rows of each process, (V * b, D), into the batch, (V, B, D)."""
        views = vectors.unflatten(0, (batch.num_views, -1))
        if self.training:
            self.agree()
        return gather_examples(views, batch.size, batch.shard)

    def read_batch(self, batch: Batch[TokenizedBatch]) -> dict[str, Any]:
        """Return the arguments that the loss takes from the batch, besides labels."""
        known = {"sentence_ids": batch.sentence_ids, "part": batch.part}
        return {name: value for name, value in self.loss.needs.select(known).items() if value is not None}

    def step_of(self, batch: Batch[TokenizedBatch], batch_idx: int) -> Step:
        """Run the encoder, and return what an auxiliary model may read."""
        from sts_lightning.training.auxiliary.base import Step

        rows, kept = self.chunks_of(batch)
        pooled = self.encoder(rows, kept, project=False)
        position = (self.seed, self.current_epoch, batch_idx)
        return Step(self.encoder, batch, rows, kept < len(rows.chunks), pooled, position, self.agree)

    def training_step(self, batch: Batch[TokenizedBatch], batch_idx: int) -> Tensor:
        """Return the loss of a batch.

        Raises:
            TrainingError: The loss is not finite. On a GPU that is found out in the next step or before the
                next checkpoint or evaluation, whichever comes first, so that nothing waits for the GPU.
        """
        self._read_loss()
        further, step = self.read_batch(batch), None
        if self.auxiliary is None:
            views = self.embed_views(batch)
        else:
            step = self.step_of(batch, batch_idx)
            views = self._gather(self.encoder.project(step.pooled), batch)
            taking = self.loss.parts[batch.part] if isinstance(self.loss, JointLoss) else self.loss
            if self.auxiliary.provides in taking.needs.inputs:
                further[self.auxiliary.provides] = self.auxiliary(step)
        with torch.autocast(views.device.type, enabled=False):  # losses are computed in float32
            loss = self._loss(views, batch.labels, further)
            self._keep_loss(loss.detach())
            self._log_step(loss.detach(), batch, views, further)
        self._finished = step
        return loss

    def _keep_loss(self, loss: Tensor) -> None:
        """Remember the loss for `_read_loss`; on a CPU read it at once, before the weights change."""
        event = None
        if loss.device.type == "cuda":
            loss = loss.to("cpu", non_blocking=True)  # into pinned memory, complete once the event has passed
            event = torch.cuda.Event()
            event.record()
        self._unread = (loss, event, self.global_step + 1)
        if event is None:
            self._read_loss()

    def _read_loss(self) -> None:
        """Check the loss that was computed last.

        Raises:
            TrainingError: It is not finite.
        """
        if self._unread is None:
            return
        (loss, event, step), self._unread = self._unread, None
        if event is not None:
            event.synchronize()
        self._last_loss = float(loss)
        if not math.isfinite(self._last_loss):
            # On a GPU the first step has changed the weights before its loss is read.
            untrained = step == 1 and event is None
            raise TrainingError(f"the loss is {self._last_loss} at step {step}; {self._remedy(untrained)}")

    def optimizer_step(
        self,
        epoch: int,
        batch_idx: int,
        optimizer: Optimizer | LightningOptimizer,
        optimizer_closure: Callable[[], Any] | None = None,
    ) -> None:
        """Take a step; where memory runs out in a process, all repeat it in smaller micro batches.

        The gradient is the same but for other draws of dropout.
        """

        def closure() -> Any:
            states = random_states(self.device)
            while True:
                try:
                    with self._own_gradient():
                        loss = None if optimizer_closure is None else optimizer_closure()
                    self.agree()
                    break
                except (RuntimeError, MemoryError) as error:
                    if not is_out_of_memory(error):
                        raise
                    if isinstance(error, ShortageElsewhere):
                        tokens = error.tokens
                    else:
                        tokens = self._least(self._smaller())
                    if tokens == 0:
                        raise
                # Only here, after the exception, nothing refers to the activations any more.
                self._shrink(tokens)
                self._finished = None
                optimizer.zero_grad()
                # On a CPU a backward pass that failed keeps its activations until there is another one.
                torch.zeros(1, requires_grad=True).sum().backward()
                if self.device.type == "cuda":
                    torch.cuda.empty_cache()
                restore_random_states(states, self.device)
            self._average_gradient()
            step, self._finished = self._finished, None
            if self.auxiliary is not None and step is not None:  # no lack of memory can repeat it now
                self.auxiliary.update(step)
            return loss

        super().optimizer_step(epoch, batch_idx, optimizer, closure)

    def agree(self) -> None:
        """Find out whether the memory of every process has sufficed up to here, before an exchange with them.

        A process whose memory runs out takes part in the next agreement wherever it is, and in no exchange.
        The others would otherwise wait for it in the exchange for ever. A step has an agreement before each
        gather and one before the mean of the gradients: each is one integer, between the hosts.

        Raises:
            ShortageElsewhere: The memory of another one has not sufficed.
        """
        if (tokens := self._least(UNLIMITED)) < UNLIMITED:
            raise ShortageElsewhere(tokens)

    def _least(self, tokens: int) -> int:
        if self._group is None:
            return tokens
        least = torch.tensor(tokens)
        distributed.all_reduce(least, op=distributed.ReduceOp.MIN, group=self._group)
        return int(least)

    @contextmanager
    def _own_gradient(self) -> Iterator[None]:
        """Keep each process's gradient to itself: DDP would exchange it before all processes have one.

        A process whose memory runs out in the backward pass would leave the others waiting. The price is that
        the exchange no longer runs beside the backward pass.
        """
        if self._group is None:
            yield
            return
        wrapped: Any = self.trainer.model
        try:
            with wrapped.no_sync():
                yield
        finally:  # after a failure too: all processes send buffers before the next step, or none
            wrapped.require_forward_param_sync = True

    def _average_gradient(self) -> None:
        """Take the mean of the processes' gradients, as DDP does: divided first."""
        if self._group is None:
            return
        gradients = [weight.grad for weight in self.parameters() if weight.grad is not None]
        for gradient in gradients:
            gradient /= self.trainer.world_size
        exchanges: list[Any] = [distributed.all_reduce(gradient, async_op=True) for gradient in gradients]
        for exchange in exchanges:
            exchange.wait()

    def on_train_batch_start(self, batch: Batch[TokenizedBatch], batch_idx: int) -> None:
        """Remember the batch, for a step in which memory runs out."""
        self._batch = batch

    def _smaller(self) -> int:
        """Return the padded tokens of the next smaller micro batches; 0 where each has one row already."""
        batch, kept = self.chunks_of(self._batch)
        rows, width = batch.largest_chunk
        held = sum(chunk["input_ids"].numel() for chunk in batch.chunks[len(batch.chunks) - kept :])
        if held > rows * width:  # recomputation comes before smaller chunks
            return max(rows * width, round(0.75 * held))
        return self.budget.smaller(rows, width)

    def _shrink(self, tokens: int) -> None:
        self.budget.shrink(tokens)
        log.warning(
            "WARNING: memory ran out at step %d, which is repeated; micro batches now have at most %d "
            "padded tokens",
            self.global_step + 1,
            tokens,
        )

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Store the limit of micro batches, after a check of the last loss: no checkpoint holds NaN."""
        self._read_loss()
        checkpoint[MICRO_BATCH] = {"setting": self.micro_batch_size, "tokens": self.budget.tokens}

    def _remedy(self, untrained: bool) -> str:
        """Return what to do about numbers that are not finite, before or after the weights were changed."""
        for name, parameter in self.named_parameters():
            if untrained and not torch.isfinite(parameter).all():
                return f"the weight {name} is NaN or infinite: check the files that the run started from."
        return "a lower optim.lr, a longer optim.warmup or precision=32-true helps most often."

    def _loss(self, views: Tensor, labels: Tensor | None, further: dict[str, Any]) -> Tensor:
        loss: Tensor = self.loss(views, labels, **further)
        check_scalar(loss, self.loss, trains=self.regularizer is None)
        if self.regularizer is not None:
            term = self.regularizer(views)
            check_scalar(term, self.regularizer)
            self.log("train/regularizer", term.detach(), batch_size=views.shape[1])
            loss = loss + term
            check_scalar(loss, self.loss, trains=True)
        return loss

    @torch.no_grad()
    def _log_step(
        self, loss: Tensor, batch: Batch[TokenizedBatch], views: Tensor, further: dict[str, Any]
    ) -> None:
        batch_size, step = batch.size, self.global_step + 1
        self.log("train/loss", loss, batch_size=batch_size)
        if step % self.trainer.log_every_n_steps == 0 or self.trainer.should_stop:  # type: ignore[attr-defined]
            found = self.loss.metrics(views, batch.labels, **further)
            metrics = {f"train/{name}": value for name, value in found.items()}
            if batch.part:
                self.log_at({name: float(value) for name, value in metrics.items()}, step)
            else:
                self.log_dict(metrics, batch_size=batch_size)
        rates = [group["lr"] for group in self.trainer.optimizers[0].param_groups]
        self.log("lr", on_host(max(rates)), batch_size=batch_size)
        if self.trainer.progress_bar_callback is not None and self._last_loss is not None:
            # On a GPU that of the step before, which can be shown without waiting.
            self.log("loss", on_host(self._last_loss), prog_bar=True, logger=False, batch_size=batch_size)
        self._log_position(self.global_step + 1, batch_size)

    def log(  # type: ignore[override]  # it takes the others by their names alone
        self, name: str, value: Any, prog_bar: bool = False, logger: bool | None = None, **settings: Any
    ) -> None:
        """Log a metric as Lightning does, and keep it for the history."""
        super().log(name, value, prog_bar, logger, **settings)
        if logger is not False:
            self.logged[name] = value

    def log_at(self, metrics: Mapping[str, float], step: int) -> None:
        """Log metrics of one step; Lightning's own `log` would repeat them in those that lack them."""
        for logger in self.trainer.loggers:
            logger.log_metrics(dict(metrics), step)
        self.add_row(metrics, step)

    def add_row(self, metrics: Mapping[str, float], step: int) -> None:
        """Add metrics to the row of a step in the history."""
        self.history.setdefault(step, {}).update({"step": step, **metrics})

    def _log_position(self, step: int, batch_size: int) -> None:
        """Number logged rows by completed optimiser steps; Lightning's own count is one less in training."""
        self.log("step", on_host(step), batch_size=batch_size)
        self.log("epoch", on_host(self.current_epoch), batch_size=batch_size)

    def validation_step(self, batch: Batch[TokenizedBatch], batch_idx: int) -> None:
        """Collect cosines of dev pairs, or vectors; every process sees all of them, in order."""
        if batch.num_views == 1:
            self._dev_found.append(self.embed_views(batch)[0].float().cpu().numpy())
            return
        first, second = self.embed_views(batch).float().cpu().numpy()
        cosines = pair_cosines(first, second)
        cosines[~np.isfinite(first + second).all(axis=1)] = np.nan
        self._dev_found.append(cosines)

    def on_validation_epoch_end(self) -> None:
        """Log the dev scores, times 100, as the report computes them.

        Raises:
            TrainingError: A cosine or a vector is not finite, which has no rank.
        """
        found, dev = np.concatenate(self._dev_found), self.trainer.datamodule.dev  # type: ignore[attr-defined]
        self._dev_found.clear()
        wrong = int((~np.isfinite(found)).reshape(len(found), -1).any(axis=1).sum())
        if wrong:
            what = ("vectors", "dev text") if found.ndim > 1 else ("cosines", "dev pair")
            raise TrainingError(
                f"the {what[0]} of {wrong:,} of {counted(len(found), what[1])} are NaN or infinite after "
                f"step {self.global_step}; {self._remedy(untrained=self.global_step == 0)}"
            )
        if isinstance(dev, Ranking):
            self.dev_found = score_queries(dev, found[: len(dev)], found[len(dev) :])
            scores = mean_scores(self.dev_found)
        else:
            # Two vectors of a sentence differ by rounding, in bfloat16 by 0.001; the report encodes it once.
            found[identical_pairs(dev)] = 1.0
            self.dev_found = (found, gold_of([dev]))
            of_pairs = correlate(*self.dev_found)
            scores = {"spearman": of_pairs["spearman"], "pearson": of_pairs["pearson"]}
        for name, value in scores.items():
            self.log(f"dev/{name}", value, prog_bar=f"dev/{name}" == monitor_of(dev))
        monitor = monitor_of(dev)
        score = scores[monitor.removeprefix("dev/")]
        self.log(DEV_SCORE, score, logger=False)
        self._log_position(self.global_step, batch_size=1)
        loss = "" if self._last_loss is None else f", loss {self._last_loss:.4f}"
        log.info("step %d%s, dev %s %.2f", self.global_step, loss, title_of(monitor), score)

    def configure_gradient_clipping(
        self,
        optimizer: Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip the norm of the gradient.

        Lightning's own clipping rejects a fused optimiser under any mixed precision. That is needed only
        where gradients are scaled (16-mixed), and there the optimiser is not fused.
        """
        if gradient_clip_val is not None:
            nn.utils.clip_grad_norm_(self.parameters(), gradient_clip_val)

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        """Return AdamW and its schedule, which advances every step."""
        optimizer = self.make_optimizer(self)
        schedule = self.make_schedule(optimizer)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]  # overloads
        """Return trainable parameters, buffers, `extra_saved`, and their copies (`frozen_copy`)."""
        trained = {name for name, parameter in self.named_parameters() if parameter.requires_grad}
        buffers = {name for name, _ in self.named_buffers()}
        copy = None if self.auxiliary is None else self.auxiliary.frozen_copy
        copies = {f"auxiliary.{copy}.{name.removeprefix('encoder.')}" for name in trained} if copy else set()
        stored = trained | buffers | copies | self.extra_saved
        whole: dict[str, Any] = super().state_dict(*args, **kwargs)
        prefix = kwargs.get("prefix", "")  # of a module around this one, whose other values stay
        for name in [name for name in whole if name.startswith(prefix)]:
            if name.removeprefix(prefix) not in stored:
                del whole[name]
        return whole

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take over the micro batches of the same setting; reject the checkpoint of another model.

        Raises:
            CheckpointError: Names or shapes of the weights differ.
        """
        check_weights(self.state_dict(), checkpoint["state_dict"], "the checkpoint")
        stored = checkpoint.get(MICRO_BATCH, {})
        if stored and stored["setting"] == self.micro_batch_size:
            self.budget.tokens = stored["tokens"]


def on_host(value: float) -> Tensor:
    """Return a number as a tensor on the host, which Lightning logs as it is.

    A plain number it copies to the GPU, and waits for it.
    """
    return torch.tensor(float(value))
