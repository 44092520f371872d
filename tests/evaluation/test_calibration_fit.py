"""Calibration of cosines: coverage over many draws, monotonicity, ties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from sts_lightning.evaluation.calibration_fit import apply, calibrate, needed_pairs

DRAWS, FRESH = 600, 20


def draw(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines, and scores that depend on them with noise that grows and is skewed."""
    cosines = rng.uniform(-0.2, 1, size)
    return cosines, 5 * cosines**2 + (0.2 + cosines.clip(0)) * (rng.exponential(1, size) - 1)


@pytest.mark.parametrize(("pairs", "coverage"), [(39, 0.9), (100, 0.9), (60, 0.5), (45, 0.95)])
def test_mean_coverage_is_that_of_the_equation(pairs: int, coverage: float) -> None:
    """Of continuous scores it is k / (n + 1): that of a draw has the distribution Beta(k, n + 1 - k)."""
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(DRAWS):
        made = calibrate(*draw(rng, pairs), coverage, seed=int(rng.integers(2**31)))
        cosines, scores = draw(rng, FRESH)
        _, low, high = apply(made, cosines)
        inside.append(np.sum((low <= scores) & (scores <= high)))
    held_out = pairs - pairs // 2
    rank = math.ceil((held_out + 1) * coverage)
    expected = stats.betabinom(FRESH, rank, held_out + 1 - rank)
    error = expected.std() / FRESH / math.sqrt(DRAWS)
    assert np.mean(inside) / FRESH == pytest.approx(rank / (held_out + 1), abs=4 * error)
    assert rank / (held_out + 1) >= coverage
    assert error < 0.01  # a wrong rank would be seen
    assert np.var(inside) == pytest.approx(expected.var(), rel=0.3)


def test_scores_ascend_with_cosines_and_stay_in_the_range() -> None:
    rng = np.random.default_rng(1)
    cosines, scores = draw(rng, 200)
    bounds = (0.0, 5.0)
    made = calibrate(cosines, scores.clip(*bounds), 0.9, bounds)
    score, low, high = apply(made, np.linspace(-2, 2, 1001))
    for values in (score, low, high):
        assert (np.diff(values) >= 0).all()
        assert (values >= 0).all()
        assert (values <= 5).all()
    assert (low <= score).all()
    assert (score <= high).all()


def test_bounds_lose_no_coverage() -> None:
    rng = np.random.default_rng(2)
    cosines, scores = draw(rng, 400)
    scores = scores.clip(0, 5)
    ends = [apply(calibrate(cosines, scores, 0.8, bounds), cosines) for bounds in (None, (0.0, 5.0))]
    free, cut = ((end.low <= scores) & (scores <= end.high) for end in ends)
    assert (free == cut).all()
    assert (ends[0].low < 0).any()


def test_the_map_and_the_half_width_by_hand() -> None:
    """Halves of exact pairs: the map is the line, all residuals are 0 but for one pair that was moved."""
    cosines = np.linspace(0, 1, 20)
    order = np.random.default_rng(0).permutation(20)
    fit, held_out = order[:10], order[10:]
    scores = np.round(4 * cosines, 12)
    scores[fit[np.argsort(cosines[fit])[:2]]] = [1.0, 0.5]  # in the wrong order: both become their mean
    scores[held_out] = np.interp(cosines[held_out], *_knots(cosines[fit], scores[fit]))
    scores[held_out[:2]] += [0.25, -0.75]
    for coverage, width in ((0.7, 0.0), (0.8, 0.25), (0.9, 0.75)):  # the 8th, 9th and 10th of ten residuals
        made = calibrate(cosines, scores, coverage)
        assert made.half_width == pytest.approx(width, abs=1e-12)
    assert (made.fitted, made.held_out) == (10, 10)
    least = np.sort(cosines[fit])[:2]
    np.testing.assert_allclose(apply(made, np.array([-1.0, *least])).score, 0.75)


def _knots(cosines: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(cosines)
    values = scores[order]
    values[:2] = values[:2].mean()
    return cosines[order], values


def test_equal_cosines_share_their_mean_and_order_does_not_matter() -> None:
    cosines = np.array([0.1, 0.5] * 30)
    scores = np.array([0.0, 4.0, 1.0, 5.0, 2.0, 3.0] * 10)
    made = calibrate(cosines, scores)
    fit = np.random.default_rng(0).permutation(60)[:30]
    means = [scores[fit][cosines[fit] == cosine].mean() for cosine in (0.1, 0.5)]
    np.testing.assert_allclose(apply(made, np.array([0.1, 0.5, 0.9])).score, [*means, means[1]])
    constant = calibrate(np.full(60, 0.3), scores)
    assert constant.cosines == (0.3,)
    assert np.ptp(apply(constant, np.array([-1.0, 1.0])).score) == 0


@pytest.mark.parametrize(
    ("coverage", "needed"), [(0.9, 17), (0.95, 37), (0.99, 197), (0.5, 4), (0.7, 5), (0.05, 4)]
)
def test_the_fewest_pairs(coverage: float, needed: int) -> None:
    assert needed_pairs(coverage) == needed
    rng = np.random.default_rng(0)
    made = calibrate(*draw(rng, needed), coverage)
    assert math.ceil(round((made.held_out + 1) * coverage, 9)) <= made.held_out
    with pytest.raises(ValueError, match=f"too few .* {needed} are needed"):
        calibrate(*draw(rng, needed - 1), coverage)


@pytest.mark.parametrize("coverage", [0.0, 1.0, -0.1, 1.5, math.nan])
def test_a_coverage_out_of_range(coverage: float) -> None:
    with pytest.raises(ValueError, match="coverage must lie between 0 and 1"):
        needed_pairs(coverage)
