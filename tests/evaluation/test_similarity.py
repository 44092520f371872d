"""Similarity of pairs, with vectors by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from sts_lightning.evaluation.similarity import score_pairs

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
