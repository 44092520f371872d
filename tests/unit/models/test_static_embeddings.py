from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer

import sts_lightning
from sts_lightning.models.loading.folder import load_weights
from sts_lightning.testing.tiny_bert import character_tokenizer
from tests.support.exports import stored_again
from tests.support.st_folders import TEXTS


@pytest.fixture
def static(tmp_path: Path) -> Path:
    """A folder of sentence-transformers with static embeddings, its tokenizer one with special tokens."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = StaticEmbedding(character_tokenizer(), embedding_dim=16)
    SentenceTransformer(modules=[module, Normalize()], device="cpu").save(
        str(tmp_path / "static"), create_model_card=False
    )
    return tmp_path / "static"


def test_static_embeddings_of_sentence_transformers(static: Path, tmp_path: Path) -> None:
    expected = SentenceTransformer(str(static), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(sts_lightning.load(static).encode(TEXTS), expected, atol=4e-7)
    half = SentenceTransformer(str(static), device="cpu").half()
    half.save(str(tmp_path / "half"), create_model_card=False)
    np.testing.assert_allclose(sts_lightning.load(tmp_path / "half").encode(TEXTS), expected, atol=2e-3)


@pytest.mark.parametrize("normalize", [False, True])
def test_a_folder_of_model2vec(normalize: bool, static: Path, tmp_path: Path) -> None:
    """Its table holds a vector for several tokens, each with a weight of its own."""
    folder = tmp_path / "model2vec"
    folder.mkdir()
    shutil.copy(static / "tokenizer.json", folder)
    (folder / "config.json").write_text(json.dumps({"model_type": "model2vec", "normalize": normalize}))
    table = load_file(static / "model.safetensors")["embedding.weight"]
    mapping = torch.arange(len(table)) // 2
    weights = torch.linspace(0.1, 2, len(table), dtype=torch.float64)
    save_file({"embeddings": table, "mapping": mapping, "weights": weights}, folder / "model.safetensors")
    vectors = table[mapping] * weights.float()[:, None]
    ids = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(TEXTS[0], add_special_tokens=False).ids
    expected = vectors[ids].mean(dim=0)
    expected = expected / expected.norm() if normalize else expected
    np.testing.assert_allclose(sts_lightning.load(folder).encode(TEXTS[:1])[0], expected, atol=4e-7)


def test_a_model_folder_comes_back(static: Path, tmp_path: Path) -> None:
    encoder, fresh = sts_lightning.load(static), sts_lightning.load(static)
    assert stored_again(encoder, tmp_path / "stored") is None
    load_weights(fresh, tmp_path / "stored")
    np.testing.assert_array_equal(fresh.encode(TEXTS), encoder.encode(TEXTS))
