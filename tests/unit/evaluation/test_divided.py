"""Sentences encoded by several processes together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from sts_lightning.evaluation.encoding import ShardedEncoder


class Lengths:
    """Vectors that name the sentence and the process that encoded it."""

    device = torch.device("cpu")

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.read: list[str] = []

    def encode(self, sentences: Sequence[str], prompt: str | None = None) -> np.ndarray:
        self.read += sentences
        return np.array([[len(text), self.rank] for text in sentences], dtype=np.float32)


def test_a_single_process_encodes_all() -> None:
    encoder = Lengths(0)
    assert ShardedEncoder(encoder).encode(["ab", "a"]).tolist() == [[2, 0], [1, 0]]
    assert encoder.read == ["ab", "a"]
