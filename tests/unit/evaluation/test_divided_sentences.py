"""Sentences dealt out by length."""

from __future__ import annotations

import numpy as np

from sts_lightning.evaluation.encoding import balanced_shards, join_shards


def test_parts_are_of_equal_length() -> None:
    sentences = ["a" * length for length in (9, 1, 5, 3, 7, 2)]
    parts = balanced_shards(sentences, 2)
    assert parts == [[1, 3, 4], [5, 2, 0]]  # lengths 1, 3, 7 and 2, 5, 9
    assert balanced_shards(sentences[:1], 3) == [[0], [], []]


def test_vectors_return_to_their_rows() -> None:
    sentences = ["ccc", "a", "bb"]
    parts = balanced_shards(sentences, 2)
    vectors = [np.array([[len(sentences[row])] for row in part], dtype=np.float64) for part in parts]
    vectors[1] = np.concatenate([vectors[1], [[99.0]]])  # padding of a shorter part
    found = join_shards(parts, vectors)
    assert found.tolist() == [[3], [1], [2]]
    assert found.dtype == np.float32
