from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import DictConfig
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer

import sts_lightning
from sts_lightning.core.errors import ConfigError, DataError
from sts_lightning.models.architectures.static_embeddings import glove, read_vectors
from sts_lightning.models.loading.folder import load_weights
from sts_lightning.models.loading.run import build_encoder
from sts_lightning.testing.tiny_bert import character_tokenizer
from sts_lightning.workflows.evaluate import evaluate_in
from tests.support.exports import stored_again
from tests.support.st_folders import TEXTS

Config = Callable[..., DictConfig]

TABLE = {
    "the": [0.5, -1.0, 2.0],
    "cat": [1.0, 0.0, 3.0],
    "Cat": [-2.0, 0.25, 1.0],
    "'s": [4.0, 4.0, -4.0],
    ".": [0.0, 1.0, 0.0],
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "vectors.txt"
    rows = [f"{word} {' '.join(map(str, vector))}" for word, vector in TABLE.items()]
    file.write_text("\n".join([*rows, ". . . 9 9 9"]) + "\n")
    return file


def average(words: list[str]) -> np.ndarray:
    return np.mean([TABLE[word] for word in words], axis=0) if words else np.zeros(3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the cat 's .", ["the", "cat", "'s", "."]),
        ("The cat.", []),
        ("Cat CAT", ["Cat"]),
        ("the  the\tdog", ["the", "the"]),
        ("dog [UNK]", []),
        ("", []),
    ],
)
def test_the_average_of_known_words(text: str, words: list[str], path: Path) -> None:
    np.testing.assert_allclose(glove(str(path)).encode([text])[0], average(words), atol=1e-6)


def test_a_sentence_does_not_depend_on_the_others(path: Path) -> None:
    encoder = glove(str(path))
    texts = ["the cat", "cat " * 40, "dog", "the ."]
    together = encoder.encode(texts, chunk_tokens=10_000)
    np.testing.assert_allclose(together, [encoder.encode([text])[0] for text in texts], atol=1e-6)
    assert encoder.dimension == 3


def test_equal_words_and_the_ends_of_lines(tmp_path: Path) -> None:
    file = tmp_path / "vectors.txt"
    file.write_bytes(b"a 1 2\r\nb -1e-3 4 \r\na 5 6\r\n. . 7 8")
    found = {word: vector.tolist() for word, vector in read_vectors(file).items()}
    assert found == {"a": [5.0, 6.0], "b": [pytest.approx(-1e-3), 4.0]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a 1 2\nb 3\n", "line 2: expected a word and 2 finite numbers"),
        (b"a 1 2\nb 3 x\n", "line 2: expected a word and 2 finite numbers"),
        (b"a 1 2\n3 4\n", "line 2: expected a word and 2 finite numbers"),
        (b"a 1 nan\n", "line 1: expected a word and 2 finite numbers"),
        (b"word\n", "line 1: expected a word and some finite numbers"),
        (b"2 12\na" + b" 1" * 12 + b"\n", "line 2: expected a word and 1 finite numbers"),  # word2vec's
        (b"a" + b" 1" * 12 + b"\nb" + b" 1" * 12 + b"c" + b" 1" * 12 + b"\n", "line 2: .* 12 finite numbers"),
        (b"a 1 2\n\xe9 1 2\n", "finite numbers in UTF-8"),
        (b"", "no word vectors"),
    ],
)
def test_malformed_files(content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "vectors.txt"
    file.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_vectors(file)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        glove(str(tmp_path / "absent.txt"))


def test_rejected_settings(config: Config, path: Path) -> None:
    for settings, key in (([], "model.path"), (["prompt=eol", f"model.path={path}"], "prompt.template")):
        cfg = config("model=glove", *settings)
        with pytest.raises(ConfigError) as caught:
            build_encoder(cfg.model, cfg.prompt)
        assert caught.value.key == key


def test_eval_on_the_suite(config: Config, tmp_path: Path, path: Path, data_root: str) -> None:
    cfg = config("model=glove", f"model.path={path}", "tasks=[STSB]", f"data_root={data_root}", of="eval")
    assert np.isfinite(evaluate_in(tmp_path / "out", cfg))


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
