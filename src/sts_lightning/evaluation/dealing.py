"""Sentences divided into parts that take equally long to encode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def dealt(sentences: Sequence[str], parts: int) -> list[list[int]]:
    """Return the rows of each part: the sentences, ordered by length, are dealt out in turn.

    Args:
        sentences: Sentences, N of them.
        parts: Number of parts; the first is a largest one, and some are empty if there are more than N.
    """
    order = sorted(range(len(sentences)), key=lambda row: len(sentences[row]))
    return [order[part::parts] for part in range(parts)]


def in_order(parts: Sequence[Sequence[int]], vectors: Sequence[np.ndarray]) -> np.ndarray:
    """Return the vectors of all sentences in their order, float32 of shape (N, D).

    Args:
        parts: Rows of each part, as `dealt` returns them.
        vectors: For each part the vectors of its rows; rows beyond these are left out.
    """
    found = np.empty((sum(map(len, parts)), vectors[0].shape[1]), dtype=np.float32)
    for part, values in zip(parts, vectors, strict=True):
        found[part] = values[: len(part)]
    return found
