"""Encoding each distinct sentence once, the cosines of given pairs, and encoding in several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from torch import distributed

from sts_lightning.core.processes import Shard
from sts_lightning.evaluation.statistics import pair_cosines, require_finite


class Encoder(Protocol):
    """Anything that maps sentences to vectors."""

    def encode(self, sentences: Sequence[str], /) -> np.ndarray:
        """Return vectors of shape (len(sentences), D)."""
        ...


@dataclass(frozen=True)
class Embedded:
    """Vectors of distinct sentences, looked up by sentence.

    Attributes:
        vectors: (N, D), in the order of the first occurrences of the sentences.
        index: Row of each sentence.
    """

    vectors: np.ndarray
    index: dict[str, int]

    def __getitem__(self, texts: Sequence[str]) -> np.ndarray:
        """Return the vectors of sentences, repeated or not, of shape (len(texts), D)."""
        rows: np.ndarray = self.vectors[[self.index[text] for text in texts]]
        return rows


def encode_distinct(encoder: Encoder, texts: Iterable[str], **options: Any) -> Embedded:
    """Encode each distinct sentence once; ``options`` are further arguments of ``encode``.

    Raises:
        TrainingError: A vector is NaN or infinite.
    """
    index = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    encode: Callable[..., np.ndarray] = encoder.encode
    return Embedded(require_finite(np.asarray(encode(list(index), **options))), index)


def score_pairs(encoder: Encoder, first: Sequence[str], second: Sequence[str]) -> np.ndarray:
    """Compute the cosines (N,) of N pairs; each distinct sentence is encoded once.

    Raises:
        TrainingError: A vector is NaN or infinite.
    """
    vectors = encode_distinct(encoder, (*first, *second))
    return pair_cosines(vectors[first], vectors[second])


class ShardedEncoder:
    """An encoder of which each process has a copy, and encodes a shard of the sentences.

    All processes call `encode` with the same sentences and get all vectors.

    Args:
        encoder: This process's encoder, whose ``encode`` takes a role, ``prompt``.
    """

    def __init__(self, encoder: Any) -> None:
        self.encoder = encoder

    def encode(self, sentences: Sequence[str], prompt: str | None = None) -> np.ndarray:
        """Encode N sentences, at least one, in the order given, by a role if any: (N, D) in float32."""
        process, processes = Shard.current()
        if processes == 1:
            vectors: np.ndarray = self.encoder.encode(sentences, prompt=prompt)
            return vectors
        # By length and in turn, so that all have as much to do. The first shard is a largest one.
        order = sorted(range(len(sentences)), key=lambda row: len(sentences[row]))
        shards = [order[shard::processes] for shard in range(processes)]
        mine = self.encoder.encode([sentences[row] for row in shards[process]], prompt=prompt)
        gathered: list[Any] = [None] * processes
        distributed.all_gather_object(gathered, mine)
        joined = np.empty((len(sentences), gathered[0].shape[1]), dtype=np.float32)
        for rows, found in zip(shards, gathered, strict=True):
            if rows:  # with fewer sentences than processes some have none
                joined[rows] = found
        return joined
