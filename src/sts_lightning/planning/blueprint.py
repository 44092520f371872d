"""The parts of a composed run, built without weights."""

from __future__ import annotations

from dataclasses import dataclass

from omegaconf import DictConfig

from sts_lightning.config.build import build
from sts_lightning.data.module import SentenceDataModule
from sts_lightning.models.encoder import freeze
from sts_lightning.planning.companions import draw_companion
from sts_lightning.planning.skeleton import build_skeleton
from sts_lightning.regularizers.base import Regularizer
from sts_lightning.training.assembly import make_data, make_loss, make_module
from sts_lightning.training.module import STSModule
from sts_lightning.training.trainer import Plan

NO_STEPS = Plan(1, 10**9, 1)
"""Length of a run whose schedule never matters."""


@dataclass(frozen=True)
class Blueprint:
    """A module that can be traced, but not trained.

    Attributes:
        module: Encoder without weights, loss, and the factory of the optimiser.
        data: Data module; no file has been read.
        depth: Number of layers of the full model, None if it is not known.
        notes: What was taken from elsewhere than the model's own files.
    """

    module: STSModule
    data: SentenceDataModule
    depth: int | None
    notes: tuple[str, ...]


def draw(cfg: DictConfig, precision: str, micro: int | None, layers: int | None = None) -> Blueprint:
    """Build the parts of a run that a step needs.

    Args:
        cfg: Configuration that `check_config` has resolved.
        precision: Precision of training, in Lightning's names.
        micro: Number of examples in a micro batch; None for no micro batches.
        layers: Number of layers to build instead of all; ignored where the model's class builds itself.

    Raises:
        ConfigError: The shape of the model is not known here, or a setting is out of range.
    """
    data = make_data(cfg)
    skeleton = build_skeleton(cfg.model, cfg.prompt, layers)
    encoder = skeleton.encoder
    loss = make_loss(cfg.loss, encoder.dimension, data.top_label)
    freeze(encoder, cfg.optim.freeze)
    companion, notes = draw_companion(cfg, encoder)
    if cfg.trainer.gradient_checkpointing:
        encoder.checkpoint_layers()
    regularizer = build("regularizer", cfg.regularizer, Regularizer) if cfg.regularizer else None
    module = make_module(cfg, precision, encoder, loss, regularizer, NO_STEPS, companion=companion)
    module.micro_batch_size = micro
    return Blueprint(module, data, skeleton.depth, (*skeleton.notes, *notes))
