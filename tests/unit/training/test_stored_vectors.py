from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sts_lightning.core.errors import DataError
from sts_lightning.training.auxiliary.stored_vectors import StoredVectors, has_vectors


def store(folder: Path, lines: str, vectors: np.ndarray) -> Path:
    (folder / "sentences.txt").write_text(lines)
    np.save(folder / "vectors.npy", vectors)
    return folder


def test_gives_the_vectors_of_sentences(tmp_path: Path) -> None:
    assert not has_vectors(tmp_path)
    vectors = np.arange(6, dtype=np.float16).reshape(3, 2)
    stored = StoredVectors(store(tmp_path, "one\ntwo \nthree\n", vectors))
    assert has_vectors(tmp_path)
    found = stored.encode(["three", "two", "three"])
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, vectors[[2, 1, 2]])


def test_an_unknown_sentence_is_named(tmp_path: Path) -> None:
    stored = StoredVectors(store(tmp_path, "one\n", np.zeros((1, 2))))
    with pytest.raises(DataError, match="lacks a sentence of the training data: 'four'"):
        stored.encode(["one", "four"])


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (np.zeros((2, 3)), "has 1 line, but vectors.npy has 2 rows"),
        (np.zeros(3), "must be a matrix"),
        (np.zeros((1, 3), dtype=np.int64), "must be a matrix of floating-point numbers"),
    ],
)
def test_malformed(vectors: np.ndarray, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        StoredVectors(store(tmp_path, "one\n", vectors))


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    folder = store(tmp_path, "one\n", np.array([[{"a": 1}]], dtype=object))
    with pytest.raises(DataError, match="cannot be read"):
        StoredVectors(folder)
