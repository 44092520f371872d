from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from sts_lightning.core.errors import TrainingError
from sts_lightning.evaluation.encoding import encode_distinct, score_pairs


class Lengths:
    """An encoder by length of the sentence, which records its calls."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def encode(self, sentences: Sequence[str], scale: float = 1.0) -> np.ndarray:
        self.calls.append(list(sentences))
        return scale * np.array([[len(text), 1.0] for text in sentences])


def test_each_sentence_is_encoded_once() -> None:
    encoder = Lengths()
    embedded = encode_distinct(encoder, ["bbb", "a", "bbb", "cc"])
    assert encoder.calls == [["bbb", "a", "cc"]]
    assert embedded.vectors.shape == (3, 2)
    assert embedded[["cc", "bbb", "cc"]][:, 0].tolist() == [2, 3, 2]


def test_options_reach_the_encoder_and_broken_vectors_are_rejected() -> None:
    assert encode_distinct(Lengths(), ["a"], scale=3.0)[["a"]].tolist() == [[3.0, 3.0]]
    with pytest.raises(TrainingError):
        encode_distinct(Lengths(), ["a"], scale=np.nan)


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
