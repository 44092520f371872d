"""Cosines and correlations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sts_lightning.core.errors import TrainingError
from sts_lightning.evaluation.statistics import correlate, pair_cosines
from sts_lightning.evaluation.sts import encode_pairs
from sts_lightning.evaluation.suites import UnitVectors


@pytest.mark.parametrize("vectors", [np.full((2, 3), np.nan), np.array([[1.0, np.inf], [1.0, 2.0]])])
def test_vectors_that_are_not_finite(vectors: np.ndarray) -> None:
    class Broken:
        def encode(self, sentences: Any, /) -> np.ndarray:
            return vectors[: len(sentences)]

    table: Any = {"sentence1": ["a"], "sentence2": ["b"]}
    for encoder in (Broken(), UnitVectors(Broken())):
        with pytest.raises(TrainingError, match=r"of 2 sentences are NaN or infinite"):
            encode_pairs(encoder, [table])


def test_cosines_by_hand_and_zero_vectors() -> None:
    first, second = np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([[4.0, 3.0], [1.0, 0.0]])
    np.testing.assert_allclose(pair_cosines(first, second), [24 / 25, 0.0])


def test_equal_cosines_score_zero() -> None:
    scores = correlate(np.ones(4), np.arange(4.0))
    assert scores == {"spearman": 0.0, "pearson": 0.0, "pairs": 4}


def test_pairs_of_identical_sentences_are_tied() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(200, 32)).astype(np.float32)
    cosines = pair_cosines(vectors, vectors)
    assert (cosines == 1).all()
    assert correlate(cosines, np.arange(200.0))["spearman"] == 0
    other = pair_cosines(vectors[:100], rng.normal(size=(100, 32)))
    mixed, gold = np.concatenate([cosines[:100], other]), np.repeat([5.0, 1.0], 100)
    exact = np.concatenate([np.ones(100), other])
    assert correlate(mixed, gold)["spearman"] == correlate(exact, gold)["spearman"]
