"""Cosines of vectors."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F


def cosines(vectors: np.ndarray, others: np.ndarray | None = None) -> np.ndarray:
    """Return the cosines of all pairs, ``u . v / (|u| |v|)``.

    Example:
        >>> encoder.similarity(encoder.encode(queries), encoder.encode(sentences)).argmax(axis=1)

    Args:
        vectors: Vectors, shape (N, D), of any length.
        others: Vectors, shape (M, D); by default the same ones.

    Returns:
        float32 array, shape (N, M), each in [-1, 1]; 0 for a vector of zeros.
    """
    first, second = (
        F.normalize(torch.from_numpy(np.asarray(part, dtype=np.float32)), dim=-1)
        for part in (vectors, vectors if others is None else others)
    )
    return np.asarray((first @ second.T).clamp(-1, 1).numpy())
