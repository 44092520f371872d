"""Features of single sentences and of pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sts_lightning.papers.transfer import FrozenFeatures

VECTORS = {"a": [1.0, -2.0], "b": [3.0, 0.5], "c": [0.0, 4.0]}


class Table:
    """An encoder that looks its vectors up, and records what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode(self, sentences: Sequence[str], /) -> np.ndarray:
        self.asked += sentences
        return np.array([VECTORS[text] for text in sentences])


def test_features_by_hand() -> None:
    encoder = Table()
    features = FrozenFeatures(encoder, ["a", "b", "a", "c"])
    assert features([("c",), ("a",)]).tolist() == [[0.0, 4.0], [1.0, -2.0]]
    # |u - v|, then u * v.
    assert features([("a", "b"), ("c", "c")]).tolist() == [[2.0, 2.5, 3.0, -1.0], [0.0, 0.0, 0.0, 16.0]]
    assert features([("a",)]).dtype == np.float32
    assert encoder.asked == ["a", "b", "c"]  # once each, and never again
