"""Difference of two groups of test pairs that are matched in strata, with a permutation test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LEVEL = 0.95
"""Coverage of the interval."""

DETECTED = 1.6449 + 0.8416
"""Standard errors of an effect that a one-sided test at 5 % finds with a probability of 80 %."""


@dataclass(frozen=True)
class MatchedDifference:
    """Mean of the control pairs minus that of the marked pairs, within strata.

    Attributes:
        estimate: The difference.
        low: Lower bound of its 95 % interval.
        high: Upper bound.
        p_value: Probability, if marks are exchangeable within strata, of at least this difference.
        detectable: Difference that the test at a level of 5 % finds with a probability of 80 %.
        marked: Number of marked pairs in strata that have both kinds.
        controls: Number of control pairs in these.
        strata: Number of these strata.
    """

    estimate: float
    low: float
    high: float
    p_value: float
    detectable: float
    marked: int
    controls: int
    strata: int


def matched_difference(
    values: np.ndarray, marked: np.ndarray, strata: np.ndarray, resamples: int = 2000, seed: int = 0
) -> MatchedDifference | None:
    r"""Compare marked pairs with the others of their stratum.

    With :math:`m_s` marked and :math:`c_s` control pairs in stratum s the estimate is

    .. math:: d = \frac{\sum_s w_s (\bar y_{s,control} - \bar y_{s,marked})}{\sum_s w_s},
        \quad w_s = \frac{m_s c_s}{m_s + c_s},

    minus the coefficient of the mark in the linear model of values with an intercept for each stratum. The
    test permutes the marks within strata and is one-sided: marked pairs have lower values. It is exact if
    marks are exchangeable within strata, whatever the distribution of the values (Good 2005, Permutation,
    Parametric, and Bootstrap Tests of Hypotheses, ch. 3). The interval is the percentile interval of a
    bootstrap of strata, so values may vary in any way within one. ``detectable`` comes from the variance of
    d over all permutations, :math:`\sum_s w_s S_s^2 / (\sum_s w_s)^2` with the variance :math:`S_s^2` of a
    stratum.

    Args:
        values: Values of the pairs, such as absolute errors, (N,).
        marked: Whether each pair is marked, (N,).
        strata: Stratum of each pair, integers, (N,).
        resamples: Number of permutations, and of bootstrap resamples.
        seed: Random seed.

    Returns:
        The difference; None if fewer than two strata have marked and control pairs.

    Raises:
        ValueError: ``resamples`` is below 1.
    """
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, got {resamples}.")
    kept = in_mixed_strata(marked, strata)
    order = np.argsort(strata[kept], kind="stable")
    y, mark = values[kept][order].astype(np.float64), marked[kept][order]
    stratum = np.unique(strata[kept][order], return_inverse=True)[1]
    count = int(stratum.max()) + 1 if len(stratum) else 0
    if count < 2:
        return None
    sizes = np.bincount(stratum)
    share = np.bincount(stratum, weights=mark) / sizes
    weight = sizes * share * (1 - share)
    centred = y - (np.bincount(stratum, weights=y) / sizes)[stratum]
    lift = share[stratum] - mark  # its product with the values sums to w_s times the stratum's difference
    parts = np.bincount(stratum, weights=lift * centred)
    total = weight.sum()
    estimate = float(parts.sum() / total)
    rng = np.random.default_rng(seed)
    shuffled = _permuted(lift, centred, stratum, resamples, rng) / total
    # Sums in another order differ by rounding.
    reached = int((shuffled >= estimate - 1e-12 * max(1.0, float(np.abs(centred).max()))).sum())
    counts = rng.multinomial(count, np.full(count, 1 / count), size=resamples)
    drawn = (counts @ parts) / (counts @ weight)
    low, high = np.percentile(drawn, [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
    variances = np.bincount(stratum, weights=centred**2) / (sizes - 1)
    return MatchedDifference(
        estimate,
        float(low),
        float(high),
        (reached + 1) / (resamples + 1),
        DETECTED * float(np.sqrt(weight @ variances)) / float(total),
        int(mark.sum()),
        int((~mark).sum()),
        count,
    )


def in_mixed_strata(marked: np.ndarray, strata: np.ndarray) -> np.ndarray:
    """Return which pairs are in a stratum with marked and control pairs, (N,)."""
    if not len(strata):
        return np.zeros(0, dtype=bool)
    group = np.unique(strata, return_inverse=True)[1]
    share = np.bincount(group, weights=marked) / np.bincount(group)
    mixed: np.ndarray = ((share > 0) & (share < 1))[group]
    return mixed


def without_reference(
    values: np.ndarray, reference: np.ndarray, marked: np.ndarray, strata: np.ndarray
) -> tuple[np.ndarray, float]:
    r"""Subtract what the values of a reference predict within strata: :math:`y_i - \theta r_i`.

    :math:`\theta` is the least-squares slope of the centred values on those of the reference over all pairs
    that are compared. It does not depend on which of them are marked, so the permutation test stays exact,
    and the difference of the result is a difference in differences with the slope that leaves the least
    variance (Deng et al. 2013, Improving the Sensitivity of Online Controlled Experiments, Sec. 3.2).

    Args:
        values: Values of the pairs, (N,).
        reference: Values of the reference for the same pairs, (N,).
        marked: Whether each pair is marked, (N,).
        strata: Stratum of each pair, (N,).

    Returns:
        The values without the reference, and the slope.
    """
    kept = in_mixed_strata(marked, strata)
    if not kept.any():
        return values, 0.0
    group = np.unique(strata[kept], return_inverse=True)[1]
    y, r = (
        column - (np.bincount(group, weights=column) / np.bincount(group))[group]
        for column in (values[kept], reference[kept])
    )
    square = float(r @ r)
    slope = float(r @ y) / square if square > 0 else 0.0
    return values - slope * reference, slope


def _permuted(
    lift: np.ndarray, values: np.ndarray, stratum: np.ndarray, resamples: int, rng: np.random.Generator
) -> np.ndarray:
    """Return the sums of lift times values, the values permuted within strata; strata are contiguous."""
    found = np.empty(resamples)
    for draw in range(resamples):
        # Within a stratum the fractional part decides; between strata the integer part.
        found[draw] = lift @ values[np.argsort(stratum + rng.random(len(stratum)))]
    return found
