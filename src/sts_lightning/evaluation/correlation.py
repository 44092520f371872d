"""Cosines and correlations, in float64, as reported."""

from __future__ import annotations

from typing import TypedDict

import numpy as np
from scipy import stats

from sts_lightning.errors import TrainingError


class Correlations(TypedDict):
    """Correlations times 100 and the number of pairs."""

    spearman: float
    pearson: float
    pairs: int


def require_finite(vectors: np.ndarray) -> np.ndarray:
    """Return vectors (N, D) unchanged if all are finite; a cosine would turn NaN and infinity into 0.

    Raises:
        TrainingError: A vector is NaN or infinite.
    """
    wrong = int((~np.isfinite(vectors).all(axis=1)).sum())
    if wrong:
        raise TrainingError(
            f"the vectors of {wrong:,} of {len(vectors):,} sentences are NaN or infinite: the weights of the "
            "model are broken, or its precision is too low; try precision=32-true."
        )
    return vectors


def pair_cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Cosine of corresponding rows in float64, 0 where a vector is 0: (N, D), (N, D) -> (N,).

    It is rounded to 12 digits, so that pairs of identical sentences are tied at 1, not ranked by rounding.
    """
    first, second = first.astype(np.float64), second.astype(np.float64)
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    dots = np.einsum("nd,nd->n", first, second)
    cosines: np.ndarray = np.divide(dots, norms, out=np.zeros_like(dots), where=norms > 0)
    return cosines.round(12)


def correlate(cosines: np.ndarray, gold: np.ndarray) -> Correlations:
    """Spearman's (mid-ranks for ties) and Pearson's correlation times 100.

    Both are 0 where all cosines are equal, as a constant predictor orders nothing.
    """
    if np.ptp(cosines) == 0:
        return {"spearman": 0.0, "pearson": 0.0, "pairs": len(gold)}
    return {
        "spearman": 100 * float(stats.spearmanr(cosines, gold).statistic),
        "pearson": 100 * float(stats.pearsonr(cosines, gold).statistic),
        "pairs": len(gold),
    }
