"""Encoding of sentences that occur several times, and the cosines of given pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sts_lightning.evaluation.correlation import pair_cosines, require_finite


class Encoder(Protocol):
    """Anything that maps sentences to vectors."""

    def encode(self, sentences: Sequence[str], /) -> np.ndarray:
        """Return vectors of shape (len(sentences), D)."""
        ...


@dataclass(frozen=True)
class Embedded:
    """Vectors of distinct sentences, looked up by sentence.

    Attributes:
        vectors: (N, D), in the order in which the sentences first occur.
        index: Row of each sentence.
    """

    vectors: np.ndarray
    index: dict[str, int]

    def __getitem__(self, texts: Sequence[str]) -> np.ndarray:
        """Return the vectors of sentences, repeated or not, of shape (len(texts), D)."""
        rows: np.ndarray = self.vectors[[self.index[text] for text in texts]]
        return rows


def encode_distinct(encoder: Encoder, texts: Iterable[str], **options: Any) -> Embedded:
    """Encode each distinct sentence once.

    Args:
        encoder: Encoder of the sentences.
        texts: Sentences, which may repeat.
        **options: Further arguments of ``encode``.

    Raises:
        TrainingError: A vector is NaN or infinite.
    """
    index = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    encode: Callable[..., np.ndarray] = encoder.encode
    return Embedded(require_finite(np.asarray(encode(list(index), **options))), index)


def score_pairs(encoder: Encoder, first: Sequence[str], second: Sequence[str]) -> np.ndarray:
    """Compute the cosine of each pair, (N,); each distinct sentence is encoded once.

    Args:
        encoder: Encoder of the sentences.
        first: First sentences, N of them.
        second: Second sentences, N of them.

    Raises:
        TrainingError: A vector is NaN or infinite.
    """
    vectors = encode_distinct(encoder, (*first, *second))
    return pair_cosines(vectors[first], vectors[second])
