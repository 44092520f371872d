"""Assembly of a run's module from its configuration."""

from __future__ import annotations

from collections.abc import Set
from functools import partial

from omegaconf import DictConfig

from sts_lightning.losses.base import Loss
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.regularizers.rank_reduction import RankReduction
from sts_lightning.training.companion import Companion
from sts_lightning.training.module import STSModule
from sts_lightning.training.optim import make_optimizer, make_schedule
from sts_lightning.training.queue import MomentumQueue
from sts_lightning.training.trainer import Plan


def make_module(
    cfg: DictConfig,
    precision: str,
    encoder: SentenceEncoder,
    loss: Loss,
    regularizer: RankReduction | None,
    plan: Plan,
    keep: Set[str] = frozenset(),
    companion: Companion | None = None,
) -> STSModule:
    """Build the module of a run around its parts, with the optimiser and schedule of its configuration.

    Args:
        cfg: Configuration of the run.
        precision: Precision of training, in Lightning's names.
        encoder: Encoder to train, frozen as configured.
        loss: Loss with its head.
        regularizer: Term added to the loss.
        plan: Length of the run.
        keep: Names of frozen weights that checkpoints hold nevertheless.
        companion: What the loss reads besides the embeddings.
    """
    optim = cfg.optim
    optimizer = partial(
        make_optimizer,
        lr=optim.lr,
        weight_decay=optim.weight_decay,
        betas=tuple(optim.betas),
        eps=optim.eps,
        layer_decay=optim.layer_decay,
        decay_embeddings=optim.decay_embeddings,
        head_lr=optim.head_lr,
        fused=precision != "16-mixed",
    )
    schedule = partial(
        make_schedule,
        schedule=optim.schedule,
        warmup=optim.warmup,
        total_steps=plan.total_steps,
        stretch=optim.stretch,
    )
    return STSModule(
        encoder,
        loss,
        optimizer,
        schedule,
        cfg.freeze,
        keep,
        regularizer,
        MomentumQueue(encoder, cfg.queue.size, cfg.queue.momentum) if cfg.queue.size else None,
        cfg.trainer.micro_batch_size,
        cfg.trainer.official_gather,
        companion,
    )
