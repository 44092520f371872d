"""The LightningModule: encoder, loss, optimiser."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Set
from typing import Any, Literal, Self

import lightning.pytorch as pl
import torch
from lightning.pytorch.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torchmetrics import Metric, MetricCollection, PearsonCorrCoef, SpearmanCorrCoef

from sts_lightning.choices import Frozen
from sts_lightning.data.collate import Batch
from sts_lightning.errors import TrainingError
from sts_lightning.losses.base import Loss, cosine_rows
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading import check_weights
from sts_lightning.models.tokenized_batch import TokenizedBatch
from sts_lightning.regularizers.rank_reduction import RankReduction
from sts_lightning.training.gather import gather_examples
from sts_lightning.training.micro_batch import find_micro_batch_size
from sts_lightning.training.queue import MomentumQueue

MONITOR = "dev/spearman"
"""The metric by which checkpoints are selected: Spearman's correlation times 100 on the dev pairs."""


class STSModule(pl.LightningModule):
    """Trains a `SentenceEncoder` with a loss on batches of views, and watches dev pairs.

    Checkpoints hold what trains (and buffers), not frozen weights.

    Args:
        encoder: What is trained.
        loss: The loss head; its parameters train with the encoder.
        optimizer: Makes the optimiser of this module.
        schedule: Makes its learning-rate schedule.
        frozen: ``none`` of the encoder; ``encoder``: its weights stand still and its dropout is off;
            ``encoder_with_dropout``: its weights stand still, as in STS-Regression's code.
        keep: Names of frozen weights that checkpoints hold nevertheless, since they do not come from the
            model's own files.
        regularizer: Added to the loss.
        queue: Further negatives for a loss that takes them.
        micro_batch_size: Examples whose activations are in memory at a time, None for all: a gradient cache,
            see `SentenceEncoder.forward`. ``auto`` for as many as fit.
        official_gather: With several processes, the 1/W of the gradient that the papers' code takes.
    """

    def __init__(
        self,
        encoder: SentenceEncoder,
        loss: Loss,
        optimizer: Callable[[pl.LightningModule], Optimizer],
        schedule: Callable[[Optimizer], LRScheduler],
        frozen: Frozen = "none",
        keep: Set[str] = frozenset(),
        regularizer: RankReduction | None = None,
        queue: MomentumQueue | None = None,
        micro_batch_size: int | Literal["auto"] | None = None,
        official_gather: bool = False,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.loss = loss
        self.make_optimizer = optimizer
        self.make_schedule = schedule
        self.frozen: Frozen = frozen
        self.keep = keep
        self.regularizer = regularizer
        self.queue = queue
        self.micro_batch_size = micro_batch_size
        self.official_gather = official_gather
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*save all targets and predictions.*")  # dev sets are small
            metrics: dict[str, Metric | MetricCollection] = {
                # On the CPU, since ranks have no deterministic form on CUDA; not synchronised, since every
                # process has the cosines of all pairs.
                MONITOR: SpearmanCorrCoef(compute_on_cpu=True, sync_on_compute=False),
                "dev/pearson": PearsonCorrCoef(sync_on_compute=False),
            }
        self.dev_metrics = MetricCollection(metrics, compute_groups=False)
        self.strict_loading = False  # frozen weights are absent; on_load_checkpoint checks the others

    def train(self, mode: bool = True) -> Self:
        """Set the mode; that of a frozen encoder is always evaluation."""
        super().train(mode)
        if self.frozen == "encoder":
            self.encoder.eval()
        return self

    def on_train_start(self) -> None:
        """Find the micro batch that fits, if asked to."""
        if self.micro_batch_size == "auto":
            data = self.trainer.datamodule  # type: ignore[attr-defined]  # set by Lightning
            processes = self.trainer.world_size
            own = math.ceil(data.batch_size / processes)
            found = find_micro_batch_size(
                self.encoder,
                own,
                data.num_views,
                self.trainer.precision_plugin.forward_context,
            )
            sizes = torch.tensor(found or own, device=self.device)
            smallest = int(self.trainer.strategy.reduce(sizes, reduce_op="min"))
            self.micro_batch_size = smallest * processes if smallest < own else None

    def embed_views(self, batch: Batch[TokenizedBatch]) -> Tensor:
        """Embeddings of a whole batch, shape (V, B, D), float32, whichever process embeds them."""
        rows, recompute = batch.rows, False
        if self.training and isinstance(self.micro_batch_size, int):
            share = max(1, self.micro_batch_size // batch.share.processes)
            rows, recompute = rows.limited(share * batch.num_views), True
        embeddings: Tensor = self.encoder(rows, recompute)
        return self._gather(embeddings.unflatten(0, (batch.num_views, -1)), batch)

    def _gather(self, own: Tensor, batch: Batch[TokenizedBatch]) -> Tensor:
        """From (V, b, D) of each process to (V, B, D)."""
        part = batch.share.of(batch.size)
        own = own[:, : part.stop - part.start]  # nothing of the example that stands in for an empty share
        return gather_examples(own, batch.size, batch.share, self.official_gather)

    def training_step(self, batch: Batch[TokenizedBatch], batch_idx: int) -> Tensor:
        """The loss of a batch.

        Raises:
            TrainingError: It is not finite; no weight has changed by this batch.
        """
        views = self.embed_views(batch)
        with torch.autocast(views.device.type, enabled=False):  # losses are computed in float32
            loss = self._loss(views, batch)
        if not torch.isfinite(loss):
            raise TrainingError(
                f"the loss is {loss.item()} at step {self.global_step + 1}; a lower optim.lr, a longer "
                "optim.warmup or precision=32-true helps most often."
            )
        size = batch.size
        self.log("train/loss", loss.detach(), prog_bar=True, batch_size=size)
        for name, value in self.loss.observed.items():
            self.log(f"train/{name}", value, batch_size=size)
        rates = [group["lr"] for group in self.trainer.optimizers[0].param_groups]
        self.log("lr", max(rates), batch_size=size)
        self._log_position(self.global_step + 1, size)
        if self.queue is not None:
            self._update_queue(self.queue, batch)
        return loss

    def _update_queue(self, queue: MomentumQueue, batch: Batch[TokenizedBatch]) -> None:
        queue.follow(self.encoder)
        part = batch.share.of(batch.size)
        vectors = queue.embed(batch.rows.head(max(1, part.stop - part.start)))
        queue.push(self._gather(vectors[None], batch)[0])

    def _loss(self, views: Tensor, batch: Batch[TokenizedBatch]) -> Tensor:
        if self.queue is None:
            loss: Tensor = self.loss(views, batch.labels)
        else:
            loss = self.loss(views, batch.labels, negatives=self.queue.negatives())
        if self.regularizer is not None:
            term = self.regularizer(views)
            self.log("train/regularizer", term.detach(), batch_size=batch.size)
            loss = loss + term
        return loss

    def _log_position(self, step: int, batch_size: int) -> None:
        """Number logged rows by optimiser steps done; Lightning's own count is off by one in training."""
        self.log("step", float(step), batch_size=batch_size)
        self.log("epoch", float(self.current_epoch), batch_size=batch_size)

    def validation_step(self, batch: Batch[TokenizedBatch], batch_idx: int) -> None:
        """Collect cosines and gold scores of dev pairs."""
        first, second = self.embed_views(batch)
        self.dev_metrics.update(cosine_rows(first, second), batch.labels)

    def on_validation_epoch_end(self) -> None:
        """Log the dev correlations, times 100."""
        for name, value in self.dev_metrics.compute().items():
            self.log(name, 100 * value, prog_bar=name == MONITOR)
        self.dev_metrics.reset()
        self._log_position(self.global_step, batch_size=1)

    def configure_gradient_clipping(
        self,
        optimizer: Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip the norm of the gradient.

        Lightning's own clipping refuses a fused optimiser under any mixed precision. That is needed only
        where gradients are scaled (16-mixed), and there `make_optimizer` is told not to fuse.
        """
        if gradient_clip_val is not None:
            nn.utils.clip_grad_norm_(self.parameters(), gradient_clip_val)

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        """AdamW with a schedule by step."""
        optimizer = self.make_optimizer(self)
        schedule = self.make_schedule(optimizer)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]  # overloads
        """The trained parameters, the buffers, and what is to be kept besides."""
        trained = {name for name, parameter in self.named_parameters() if parameter.requires_grad}
        buffers = {name for name, _ in self.named_buffers()}
        whole = super().state_dict(*args, **kwargs)
        # The momentum copy does not train either, but is the run's own.
        return {
            name: value
            for name, value in whole.items()
            if name in trained | buffers | self.keep or name.startswith("queue.")
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse the checkpoint of another model.

        Raises:
            CheckpointError: Names or shapes of the weights differ.
        """
        check_weights(self.state_dict(), checkpoint["state_dict"], "the checkpoint")
