"""Similarity of pairs and search, with vectors by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from sts_lightning.evaluation.similarity import score_pairs, search

VECTORS = {"north": (0.0, 2.0), "east": (3.0, 0.0), "northeast": (1.0, 1.0), "nowhere": (0.0, 0.0)}


class Compass:
    """Encoder of four directions that notes what it is given."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def encode(self, sentences: Sequence[str], /) -> np.ndarray:
        self.seen += sentences
        return np.array([VECTORS[one] for one in sentences], dtype=np.float32)


def test_pairs() -> None:
    encoder = Compass()
    first, second = ["north", "north", "north", "nowhere"], ["east", "northeast", "north", "north"]
    assert score_pairs(encoder, first, second) == pytest.approx([0, 0.5**0.5, 1, 0])
    assert sorted(encoder.seen) == sorted(VECTORS)  # each sentence once


def test_search() -> None:
    corpus = ["east", "nowhere", "north", "northeast", "north"]
    first, second = search(Compass(), corpus, ["north", "east"], top=3)
    assert [index for _, index in first] == [2, 4, 3]
    assert [cosine for cosine, _ in first] == pytest.approx([1, 1, 0.5**0.5])
    assert [index for _, index in second] == [0, 3, 1]
    assert len(search(Compass(), corpus, ["north"], top=99)[0]) == 5
