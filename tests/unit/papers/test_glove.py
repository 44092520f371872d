from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from omegaconf import DictConfig

from sts_lightning.core.errors import ConfigError, DataError
from sts_lightning.models.loading.run import build_encoder
from sts_lightning.papers.glove import glove, read_vectors
from sts_lightning.workflows.evaluate import evaluate_in

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
