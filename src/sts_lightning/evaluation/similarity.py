"""Similarity of sentences: of given pairs, and of a query to each sentence of a collection."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sts_lightning.evaluation.correlation import pair_cosines
from sts_lightning.evaluation.encoding import Encoder, encode_distinct

Match = tuple[float, int]
"""Cosine of a query and a sentence, and the index of the sentence."""


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


def search(encoder: Encoder, corpus: Sequence[str], queries: Sequence[str], top: int) -> list[list[Match]]:
    """Find the sentences of a collection that are most similar to each query, the most similar one first.

    All pairs are compared. Of equal cosines the sentence that comes first wins.

    Args:
        encoder: Encoder of the sentences.
        corpus: Sentences to search.
        queries: Sentences to find similar ones to.
        top: Number of sentences for each query; all if the collection is smaller.

    Raises:
        TrainingError: A vector is NaN or infinite.
    """
    vectors = encode_distinct(encoder, (*corpus, *queries))
    unit = _unit(vectors[corpus])
    matches = []
    for query in _unit(vectors[queries]):
        cosines = unit @ query
        order = np.argsort(-cosines, kind="stable")[:top]
        matches.append([(float(cosines[index]), int(index)) for index in order])
    return matches


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Scale rows to length 1 in float64; those of zeros stay."""
    vectors = vectors.astype(np.float64)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: np.ndarray = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    return unit
