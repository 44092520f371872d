"""Auxiliary models of a run without weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from sts_lightning.config.build import build, name_setting
from sts_lightning.core.errors import ConfigError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.run import is_run
from sts_lightning.planning.fake import replaced
from sts_lightning.planning.skeleton import Skeleton, build_skeleton
from sts_lightning.runs.folder import RunFolder
from sts_lightning.training.auxiliary import masked_lm
from sts_lightning.training.auxiliary.base import AuxiliaryModel
from sts_lightning.training.auxiliary.momentum_queue import MomentumQueue
from sts_lightning.training.auxiliary.stored_vectors import StoredVectors, has_vectors
from sts_lightning.training.auxiliary.teacher import Encodes, Teacher


class Sketch:
    """Teacher without weights, which returns zeros.

    Args:
        dimension: Size of its vectors.
        encoder: Its encoder, without weights; None where the vectors are stored and nothing is traced.

    Attributes:
        trace: Function that traces what its encoder does with sentences; the step sets it.
    """

    def __init__(self, dimension: int, encoder: SentenceEncoder | None = None) -> None:
        self.dimension = dimension
        self.encoder = None if encoder is None else encoder.requires_grad_(False).eval()
        self.trace: Callable[[SentenceEncoder, Sequence[str]], None] | None = None

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        """Trace the encoder; return zeros, (N, D)."""
        if self.encoder is not None and self.trace is not None:
            self.trace(self.encoder, sentences)
        return np.zeros((len(sentences), self.dimension), dtype=np.float32)


def draw_auxiliary(cfg: DictConfig, encoder: SentenceEncoder) -> tuple[AuxiliaryModel | None, list[str]]:
    """Build the auxiliary model of a configuration without weights, and connect it to the encoder.

    Args:
        cfg: Configuration that `check_config` has resolved.
        encoder: Encoder without weights.

    Returns:
        The auxiliary model, if there is one, and what was taken from elsewhere than its files.

    Raises:
        ConfigError: It does not fit the encoder, or the shape of a teacher is not known here.
    """
    if not cfg.auxiliary:
        return None, []
    auxiliary = build("auxiliary", cfg.auxiliary, AuxiliaryModel)
    if not isinstance(auxiliary, Teacher):
        with name_setting("auxiliary", cfg.auxiliary):
            auxiliary.connect(encoder)
        return auxiliary, []
    notes: list[str] = []

    def load(source: str) -> Encodes:
        if has_vectors(Path(source)):
            return Sketch(StoredVectors(Path(source)).dimension)
        skeleton = _teacher(source, auxiliary)
        notes.extend(f"{source}: {note}" for note in skeleton.notes)
        return Sketch(skeleton.encoder.dimension, skeleton.encoder)

    auxiliary.connect_by(load)
    return auxiliary, notes


def sketches(auxiliary: AuxiliaryModel | None) -> list[Sketch]:
    """Return the teachers of an auxiliary model."""
    encoders = auxiliary.encoders if isinstance(auxiliary, Teacher) else []
    return [encoder for encoder in encoders if isinstance(encoder, Sketch)]


def _teacher(source: str, teacher: Teacher) -> Skeleton:
    if is_run(source):
        cfg = RunFolder(source).load_config()
        return build_skeleton(cfg.model, cfg.prompt)
    # Where the pooling is set, a plan needs no more of the model than its shape.
    target = (
        "sts_lightning.models.SentenceEncoder.from_pretrained"
        if teacher.pooling
        else "sts_lightning.models.loading.pipeline.from_pipeline"
    )
    model = {"_target_": target, "name": source}
    model |= {name: getattr(teacher, name) for name in ("pooling", "max_length") if getattr(teacher, name)}
    try:
        return build_skeleton(OmegaConf.create(model), OmegaConf.create({"pooling": None}))
    except ConfigError as error:
        error.key = "auxiliary.sources"
        raise


def usual_values(auxiliary: AuxiliaryModel) -> AbstractContextManager[None]:
    """Let a masked language model choose as many words as its rate says, and a queue be full.

    Fake masks have no positions, and a fake number of vectors no value.
    """
    if isinstance(auxiliary, MomentumQueue):
        # A copy, since the step exchanges what the loss reads for other tensors.
        return replaced(auxiliary, {"negatives": lambda: auxiliary.vectors.clone()})

    def positions(chosen: Tensor) -> Tensor:
        rows, length = chosen.shape
        words = rows * max(0, length - 2)  # neither the first nor the last token of a row
        return torch.arange(max(1, round(getattr(auxiliary, "mask_rate", 0.0) * words)))

    return replaced(masked_lm, {"positions": positions})
