"""Similarity of given pairs of sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sts_lightning.evaluation.correlation import pair_cosines
from sts_lightning.evaluation.encoding import Encoder, encode_distinct


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
