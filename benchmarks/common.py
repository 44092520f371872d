"""MiniLM as this project and as sentence-transformers load it."""

from __future__ import annotations

from pathlib import Path

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig
from sentence_transformers import SentenceTransformer

from sts_lightning.config.schema import register_schemas
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading import build_encoder
from sts_lightning.models.offline import packaged_copy

register_schemas()
with initialize_config_dir(str(Path(__file__).resolve().parents[1] / "conf"), version_base="1.3"):
    CONFIG: DictConfig = compose("train")


def our_minilm() -> SentenceEncoder:
    """Load the default model."""
    return build_encoder(CONFIG.model, CONFIG.prompt)


def their_minilm() -> SentenceTransformer:
    """Load the same files with sentence-transformers."""
    hub_id, _, revision = CONFIG.model.name.partition("@")
    return SentenceTransformer(str(packaged_copy(hub_id, revision) or hub_id), device="cpu")
