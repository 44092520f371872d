"""MiniLM as this project and as sentence-transformers load it."""

from __future__ import annotations

from hydra import compose
from omegaconf import DictConfig
from sentence_transformers import SentenceTransformer

from sts_lightning.config.compose import composing
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.hub import packaged_copy
from sts_lightning.models.loading.run import build_encoder

with composing():
    CONFIG: DictConfig = compose("train")


def our_minilm() -> SentenceEncoder:
    """Load the default model."""
    return build_encoder(CONFIG.model, CONFIG.prompt)


def their_minilm() -> SentenceTransformer:
    """Load the same files with sentence-transformers."""
    hub_id, _, revision = CONFIG.model.name.partition("@")
    return SentenceTransformer(str(packaged_copy(hub_id, revision) or hub_id), device="cpu")
