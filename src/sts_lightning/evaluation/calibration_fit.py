"""Calibration of cosines to a scale of scores, with intervals of guaranteed coverage."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression

from sts_lightning.runs.calibration_file import Calibration

LEAST_FITTED = 2
"""Fewest pairs to fit a map to."""


class Calibrated(NamedTuple):
    """Scores of pairs and the ends of their intervals, (N,) each."""

    score: np.ndarray
    low: np.ndarray
    high: np.ndarray


def calibrate(
    cosines: np.ndarray,
    scores: np.ndarray,
    coverage: float = 0.9,
    score_range: tuple[float, float] | None = None,
    seed: int = 0,
) -> Calibration:
    r"""Fit a monotone map from cosines to scores, and intervals around it by split conformal prediction.

    A random half of the pairs fits the map f by isotonic regression, the other n pairs set the half-width

    .. math:: q = R_{(k)}, \quad R_i = |y_i - f(s_i)|, \quad k = \lceil (n + 1) c \rceil,

    the k-th smallest of their residuals. If these pairs and a new one are exchangeable, the score of the new
    one lies in [f(s) - q, f(s) + q] with a probability of at least c, and of exactly k / (n + 1) where no
    residuals are equal, whatever the model and the distribution (Papadopoulos et al. 2002, Inductive
    Confidence Machines for Regression; Lei et al. 2018, Distribution-Free Predictive Inference for
    Regression, Algorithm 2). The probability is over the calibration pairs too, and on average over
    cosines, not for each cosine.

    Args:
        cosines: Cosines of pairs, (N,).
        scores: Their scores, (N,).
        coverage: Probability c, between 0 and 1.
        score_range: Lowest and highest possible score, at which intervals are cut; None for no bounds.
        seed: Random seed of the halves.

    Raises:
        ValueError: There are fewer than `needed_pairs`, or the coverage is out of range.
    """
    needed = needed_pairs(coverage)
    if len(cosines) < needed:
        raise ValueError(f"{len(cosines)} pairs are too few for coverage {coverage:g}: {needed} are needed.")
    order = np.random.default_rng(seed).permutation(len(cosines))
    fit, held_out = np.split(order, [len(order) // 2])
    knots, values = monotone_map(cosines[fit], scores[fit])
    residuals = np.sort(np.abs(scores[held_out] - np.interp(cosines[held_out], knots, values)))
    half_width = residuals[_rank(len(held_out), coverage) - 1]
    return Calibration(
        tuple(map(float, knots)),
        tuple(map(float, values)),
        float(half_width),
        coverage,
        score_range,
        len(fit),
        len(held_out),
    )


def apply(calibration: Calibration, cosines: np.ndarray) -> Calibrated:
    """Return the scores of cosines (N,) and the ends of their intervals."""
    score = np.interp(cosines, calibration.cosines, calibration.scores)
    low, high = score - calibration.half_width, score + calibration.half_width
    if calibration.score_range is not None:  # the true score lies within, so this loses no coverage
        low, high = (np.clip(end, *calibration.score_range) for end in (low, high))
    return Calibrated(score, low, high)


def needed_pairs(coverage: float) -> int:
    """Return the fewest pairs that give an interval: with n held out, ceil((n + 1) c) may not exceed n.

    Raises:
        ValueError: The coverage is not between 0 and 1.
    """
    if not 0 < coverage < 1:
        raise ValueError(f"coverage must lie between 0 and 1, got {coverage:g}.")
    exact = Fraction(str(coverage))
    held_out = math.ceil(exact / (1 - exact))
    return max(2 * held_out - 1, 2 * LEAST_FITTED)


def _rank(held_out: int, coverage: float) -> int:
    """Return ceil((n + 1) c) without the rounding error of floats."""
    return math.ceil((held_out + 1) * Fraction(str(coverage)))


def monotone_map(cosines: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the knots of an isotonic regression: the ends of each block of equal scores.

    Pairs of equal cosine count as one, of their mean score and of their number as weight.
    """
    distinct, group = np.unique(cosines, return_inverse=True)
    counts = np.bincount(group)
    means = np.bincount(group, weights=scores) / counts
    fitted = isotonic_regression(means, weights=counts)
    blocks = fitted.blocks
    ends = np.unique(np.concatenate([blocks[:-1], blocks[1:] - 1]))
    return distinct[ends], fitted.x[ends]
