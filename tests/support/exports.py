"""Short runs to export."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import DictConfig
from sentence_transformers import SentenceTransformer

import sts_lightning
from sts_lightning.export.sentence_transformers import write_sentence_transformers
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.folder import write_model
from sts_lightning.models.loading.hub import OWN_FILE
from sts_lightning.models.loading.pipeline import read_model
from sts_lightning.workflows.start import train_in
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


def stored_again(encoder: SentenceEncoder, folder: Path) -> str | None:
    """Write an encoder with changed weights as a model folder, and compare what reads it.

    Returns:
        Why sentence-transformers refuses the folder; None if it computes the same vectors.
    """
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.mul_(1 + 0.1 * torch.randn(weight.shape, generator=generator))
    vectors = encoder.encode(TEXTS)
    write_model(encoder, folder)
    np.testing.assert_array_equal(read_model(str(folder))[0].encode(TEXTS), vectors)
    refused: str | None = json.loads((folder / OWN_FILE).read_text())["refused"]
    with nullcontext() if refused is None else pytest.raises(ValueError, match=r"sts_lightning\.load"):
        library = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
        scale = np.linalg.norm(vectors, axis=1).max()
        np.testing.assert_allclose(library.encode(TEXTS), vectors, atol=1e-5 * scale)
    return refused
