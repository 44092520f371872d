"""Companions of a run without weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from sts_lightning.config.build import build, name_setting
from sts_lightning.errors import ConfigError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading import is_run
from sts_lightning.models.tokenized_batch import TokenizedBatch
from sts_lightning.planning.kernels import replaced
from sts_lightning.planning.meter import Meter
from sts_lightning.planning.skeleton import Skeleton, build_skeleton
from sts_lightning.runs.folder import RunFolder
from sts_lightning.training import masked_lm
from sts_lightning.training.companion import Companion
from sts_lightning.training.queue import MomentumQueue
from sts_lightning.training.stored_vectors import StoredVectors, has_vectors
from sts_lightning.training.teacher import Encodes, Teacher

Fake = Callable[[TokenizedBatch], TokenizedBatch]
"""Function that replaces the tensors of rows by fake ones."""

BOUNDARIES = 2
"""Tokens of a row that are never masked: the first and the last one."""


class Sketch:
    """Teacher without weights: traces one chunk of the sentences that it is asked for, and returns zeros.

    Args:
        dimension: Size of its vectors.
        encoder: Its encoder, without weights; None where the vectors are stored and nothing is traced.

    Attributes:
        fake: Function that makes rows fake; the step sets it.
        meter: Meter whose costs are multiplied by the number of chunks; the step sets it.
        chunk_tokens: Maximum number of tokens of a chunk; the step sets it.
    """

    def __init__(self, dimension: int, encoder: SentenceEncoder | None = None) -> None:
        self.dimension = dimension
        self.encoder = None if encoder is None else encoder.requires_grad_(False).eval()
        self.fake: Fake | None = None
        self.meter = Meter()
        self.chunk_tokens = 1

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        """Trace the first chunk, which has the longest rows; return zeros, (N, D)."""
        if self.encoder is not None:
            self._trace(self.encoder, sentences)
        return np.zeros((len(sentences), self.dimension), dtype=np.float32)

    def _trace(self, encoder: SentenceEncoder, sentences: Sequence[str]) -> None:
        assert self.fake is not None
        with _disable_current_modes():
            rows = encoder.prepare(self.chunk_tokens, training=False)([sentences], [])
            first = self.fake(TokenizedBatch(rows.chunks[:1], rows.restore, rows.num_tokens))
        before = self.meter.costs.copy()
        with torch.no_grad():
            encoder.embed_chunk(first.chunks[0])
        tokens = [chunk["input_ids"].numel() for chunk in rows.chunks]
        more = sum(tokens) / tokens[0] - 1
        for cost, count in (self.meter.costs - before).items():
            self.meter.costs[cost] += math.ceil(count * more)


def draw_companion(cfg: DictConfig, encoder: SentenceEncoder) -> tuple[Companion | None, list[str]]:
    """Build the companion of a configuration without weights, and connect it to the encoder.

    Args:
        cfg: Configuration that `check_config` has resolved.
        encoder: Encoder without weights.

    Returns:
        The companion, if there is one, and what was taken from elsewhere than its own files.

    Raises:
        ConfigError: It does not fit the encoder, or the shape of a teacher is not known here.
    """
    if not cfg.companion:
        return None, []
    companion = build("companion", cfg.companion, Companion)
    notes: list[str] = []
    if not isinstance(companion, Teacher):
        with name_setting("companion", cfg.companion):
            companion.connect(encoder)
        return companion, notes

    def load(source: str) -> Encodes:
        if has_vectors(Path(source)):
            return Sketch(StoredVectors(Path(source)).dimension)
        skeleton = _teacher(source, companion)
        notes.extend(f"{source}: {note}" for note in skeleton.notes)
        return Sketch(skeleton.encoder.dimension, skeleton.encoder)

    companion.connect_by(load)
    return companion, notes


def sketches(companion: Companion | None) -> list[Sketch]:
    """Return the teachers of a companion."""
    encoders = companion.encoders if isinstance(companion, Teacher) else []
    return [encoder for encoder in encoders if isinstance(encoder, Sketch)]


def _teacher(source: str, teacher: Teacher) -> Skeleton:
    if is_run(source):
        cfg = RunFolder(source).last_stage().load_config(encoder_only=True)
        return build_skeleton(cfg.model, cfg.prompt)
    # With a pooling of its own a plan needs no more of the model than its shape.
    own = "SentenceEncoder.from_pretrained" if teacher.pooling else "pipeline.from_pipeline"
    model = {"_target_": f"sts_lightning.models.{own}", "name": source}
    model |= {name: getattr(teacher, name) for name in ("pooling", "max_length") if getattr(teacher, name)}
    try:
        return build_skeleton(OmegaConf.create(model), OmegaConf.create({"pooling": None}))
    except ConfigError as error:
        error.key = "companion.sources"
        raise


@contextmanager
def usual_values(companion: Companion | None) -> Iterator[None]:
    """Let a masked language model choose as many words as its rate says, and a queue be full.

    Fake masks have no positions, and a fake number of vectors no value.
    """
    if isinstance(companion, MomentumQueue):
        # A copy, since the step exchanges what the loss reads for other tensors.
        with replaced(companion, {"negatives": lambda: companion.vectors.clone()}):
            yield
        return
    if not isinstance(companion, masked_lm.MaskedLanguageModel):
        yield
        return

    def places(chosen: Tensor) -> Tensor:
        rows, length = chosen.shape
        words = rows * max(0, length - BOUNDARIES)
        return torch.arange(max(1, round(companion.mask_rate * words)))

    with replaced(masked_lm, {"positions": places}):
        yield
