"""Short runs to export."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from omegaconf import DictConfig

import sts_lightning
from sts_lightning.export.sentence_transformers import write_sentence_transformers
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.hub import OWN_FILE
from sts_lightning.workflows.command import train_in
from tests.conftest import SHORT_RUN

Config = Callable[..., DictConfig]


TEXTS = ["The boy hid a rug .", 'A "farmer', "Who sings?", "x", "much longer than " * 8]


STEPS = ["data.batch_size=8", "trainer.max_epochs=-1", "trainer.max_steps=3", "optim.lr=1e-2", "logger=csv"]


DECODER = ["model=tiny_mistral", "prompt=eol"]


def trained(run: Path, config: Config, *overrides: str) -> SentenceEncoder:
    start = [
        text for text in SHORT_RUN if not (text.startswith("model=") and "model=" in " ".join(overrides))
    ]
    train_in(run, config(*start, *STEPS, "evaluation.final=false", *overrides))
    return sts_lightning.load(run)


def write_export(encoder: SentenceEncoder, folder: Path) -> None:
    """Write an encoder that was not trained, as an export to sentence-transformers is written."""
    (folder / OWN_FILE).write_text(json.dumps(write_sentence_transformers(encoder, folder)))
