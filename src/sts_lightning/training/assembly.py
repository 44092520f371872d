"""Assembly of a run's data, loss and module from its configuration."""

from __future__ import annotations

from collections.abc import Set
from functools import partial
from typing import TYPE_CHECKING

from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.build import LOADING, build, name_setting, shared_settings
from sts_lightning.data.data_set import DataSet
from sts_lightning.data.module import DataModule
from sts_lightning.losses.base import Loss
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.training.module import STSModule
from sts_lightning.training.optim import make_optimizer, make_schedule
from sts_lightning.training.trainer import StepCount

if TYPE_CHECKING:
    from sts_lightning.regularizers.base import Regularizer
    from sts_lightning.training.auxiliary.base import AuxiliaryModel


def make_data(cfg: DictConfig) -> DataModule:
    """Build the data of a configuration without interpolations; nothing is read yet.

    Raises:
        ConfigError: A setting is out of range, or the configuration builds something other than data.
    """
    loading = {key: cfg.data[key] for key in LOADING if key in cfg.data}
    settings = OmegaConf.masked_copy(cfg.data, [key for key in cfg.data if key not in loading])
    further = {"seed": loading["seed"]} if "seed" in loading else {}  # of splits and repetitions, too
    data_set: DataSet = build("data", settings, DataSet, {**shared_settings(cfg), **further})
    with name_setting("data", cfg.data):
        return DataModule(data_set, **loading)


def make_loss(node: DictConfig, dimension: int, top_label: float) -> Loss:
    """Build the loss of a configuration, with its head if it has one.

    Args:
        node: Configuration of the loss.
        dimension: D, the size of an embedding.
        top_label: Highest label of the data: the top score, or the number of classes minus one.

    Raises:
        ConfigError: A setting is out of range, the loss cannot be computed on embeddings of this size, or
            the configuration builds something other than a loss.
    """
    loss: Loss = build("loss", node, Loss, {"dimension": dimension, "top_label": top_label})
    return loss


def make_module(
    cfg: DictConfig,
    precision: str,
    encoder: SentenceEncoder,
    loss: Loss,
    regularizer: Regularizer | None,
    steps: StepCount,
    keep: Set[str] = frozenset(),
    auxiliary: AuxiliaryModel | None = None,
) -> STSModule:
    """Build the module of a run, with the optimiser and the schedule of its configuration.

    Args:
        cfg: Configuration of the run.
        precision: Precision of training, in Lightning's names.
        encoder: Encoder to train, frozen as configured.
        loss: Loss to train with.
        regularizer: Term added to the loss.
        steps: Length of the run.
        keep: Names of frozen weights that checkpoints hold nevertheless.
        auxiliary: What the loss reads besides the embeddings.
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
        total_steps=steps.total_steps,
        stretch=optim.stretch,
    )
    return STSModule(
        encoder,
        loss,
        optimizer,
        schedule,
        optim.freeze,
        keep,
        regularizer,
        cfg.trainer.micro_batch_size,
        cfg.trainer.official_gather,
        auxiliary,
        cfg.seed,
    )
