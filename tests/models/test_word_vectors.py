from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from omegaconf import DictConfig

import sts_lightning
from sts_lightning.choices import ExportFormat
from sts_lightning.errors import ConfigError, DataError
from sts_lightning.export.export import export
from sts_lightning.models.loading import build_encoder
from sts_lightning.models.word_vectors import read_vectors, word_vectors
from sts_lightning.workflows.evaluate import evaluate_in
from sts_lightning.workflows.train import train_in
from tests.conftest import SHORT_DATA
from tests.scenarios.helpers import metrics

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
    ("text", "exact", "relaxed"),
    [
        ("the cat 's .", ["the", "cat", "'s", "."], ["the", "cat", "'s", "."]),
        ("The cat.", [], ["the", "cat"]),
        ("Cat CAT", ["Cat"], ["Cat", "cat"]),
        ("the  the\tdog", ["the", "the"], ["the", "the"]),
        ("dog [PAD] [UNK]", [], []),
        ("", [], []),
        ('"the," (cat)', [], ["the", "cat"]),
    ],
)
def test_the_average_of_known_words(text: str, exact: list[str], relaxed: list[str], path: Path) -> None:
    for lookup, words in (("exact", exact), ("relaxed", relaxed)):
        encoder = word_vectors(str(path), lookup)  # type: ignore[arg-type]
        np.testing.assert_allclose(encoder.encode([text])[0], average(words), atol=1e-6)


def test_a_sentence_does_not_depend_on_the_others(path: Path) -> None:
    encoder = word_vectors(str(path))
    texts = ["the cat", "cat " * 40, "dog", "the ."]
    together = encoder.encode(texts, chunk_tokens=10_000)
    np.testing.assert_allclose(together, [encoder.encode([text])[0] for text in texts], atol=1e-6)
    assert encoder.dimension == 3


def test_word2vecs_header_and_equal_words(tmp_path: Path) -> None:
    file = tmp_path / "vectors.txt"
    file.write_text("3 2\na 1 2\nb 3 4\na 5 6\n")
    words, vectors = read_vectors(file)
    assert dict(zip(words, vectors.tolist(), strict=True)) == {"a": [5.0, 6.0], "b": [3.0, 4.0]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a 1 2\nb 3\n", "line 2: expected a word and 2 finite numbers"),
        ("a 1 2\nb 3 x\n", "line 2: expected a word and 2 finite numbers"),
        ("a 1 nan\n", "line 1: expected a word and 2 finite numbers"),
        ("word\n", "line 1: expected a word and some finite numbers"),
        ("", "no word vectors"),
        ("2 3\n", "no word vectors"),
    ],
)
def test_malformed_files(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "vectors.txt"
    file.write_text(content)
    with pytest.raises(DataError, match=message):
        read_vectors(file)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        word_vectors(str(tmp_path / "absent.txt"))


def test_rejected_settings(config: Config, path: Path) -> None:
    for settings, key in (([], "model.path"), (["prompt=eol", f"model.path={path}"], "prompt.template")):
        cfg = config("model=glove", *settings)
        with pytest.raises(ConfigError) as caught:
            build_encoder(cfg.model, cfg.prompt)
        assert caught.value.key == key
    with pytest.raises(ValueError, match=r"^lookup must be one of exact, relaxed"):
        word_vectors(str(path), "fuzzy")  # type: ignore[arg-type]


def test_a_run_of_word_vectors_loads(config: Config, tmp_path: Path) -> None:
    """The vectors of words train as those of any model, and come back."""
    file = tmp_path / "toy.txt"
    words = ["the", "a", "boy", "girl", "farmer", "hid", "found", "rug", "in", "on", "."]
    generator = np.random.default_rng(0)
    file.write_text("".join(f"{word} {' '.join(map(str, generator.normal(size=8)))}\n" for word in words))
    run = tmp_path / "run"
    steps = ["trainer.max_epochs=-1", "trainer.max_steps=4", "trainer.val_every=2", "optim.lr=1e-2"]
    train_in(run, config("model=glove", f"model.path={file}", *SHORT_DATA, *steps))
    encoder = sts_lightning.load(run)
    texts = ["the boy hid a rug .", "a farmer ."]
    assert encoder.encode(texts).shape == (2, 8)
    assert not np.allclose(encoder.encode(texts), word_vectors(str(file)).encode(texts), atol=1e-4)
    assert metrics(run)["test"]


def test_eval_on_the_suite(config: Config, tmp_path: Path, path: Path, data_root: str) -> None:
    cfg = config("model=glove", f"model.path={path}", "tasks=[STSB]", f"data_root={data_root}", of="eval")
    assert np.isfinite(evaluate_in(tmp_path / "out", cfg))


@pytest.mark.parametrize("form", ["merged", "sentence-transformers"])
def test_an_export_that_nothing_could_load_is_rejected(
    form: ExportFormat, path: Path, config: Config, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    overrides = [*SHORT_DATA, "model=glove", f"model.path={path}", "trainer.max_steps=2"]
    train_in(run, config(*overrides, "evaluation.final=false"))
    with pytest.raises(ConfigError, match=r"an architecture that transformers lacks"):
        export(run, tmp_path / "out", form)
    assert not (tmp_path / "out").exists()
