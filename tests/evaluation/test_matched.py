"""The matched difference: values by hand and by another method, and error rates on simulated errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from sts_lightning.evaluation.matched import (
    MatchedDifference,
    in_mixed_strata,
    matched_difference,
    without_reference,
)

VALUES = np.array([1.0, 2.0, 4.0, 3.0, 7.0, 9.0, 5.0])
MARKED = np.array([True, False, False, True, False, True, True])
STRATA = np.array([4, 4, 4, 7, 7, 9, 9])
"""Stratum 4: (2 + 4) / 2 - 1 = 2, weight 2/3; stratum 7: 7 - 3 = 4, weight 1/2; stratum 9 has no control."""


def difference(
    values: np.ndarray, marked: np.ndarray, strata: np.ndarray, resamples: int = 300, seed: int = 0
) -> MatchedDifference:
    found = matched_difference(values, marked, strata, resamples, seed)
    assert found is not None
    return found


def test_by_hand() -> None:
    found = difference(VALUES, MARKED, STRATA)
    assert found.estimate == pytest.approx((2 * 2 / 3 + 4 / 2) / (2 / 3 + 1 / 2))
    assert (found.marked, found.controls, found.strata) == (2, 3, 2)
    assert in_mixed_strata(MARKED, STRATA).tolist() == [True] * 5 + [False] * 2
    assert (found.low, found.high) == pytest.approx((2, 4))  # of samples of two strata


def test_p_value_is_that_of_all_permutations() -> None:
    exact = []
    for four in itertools.permutations([0, 1, 2]):
        for seven in itertools.permutations([3, 4]):
            v = VALUES[[*four, *seven]]
            parts = 2 / 3 * ((v[1] + v[2]) / 2 - v[0]) + 1 / 2 * (v[4] - v[3])
            exact.append(parts / (2 / 3 + 1 / 2))
    found = difference(VALUES, MARKED, STRATA, resamples=20_000)
    assert found.p_value == pytest.approx(np.mean(np.array(exact) >= found.estimate - 1e-9), abs=0.01)
    assert found.detectable == pytest.approx((1.6449 + 0.8416) * np.std(exact), rel=1e-6)


def test_estimate_is_the_coefficient_of_a_linear_model() -> None:
    rng = np.random.default_rng(3)
    strata = rng.integers(12, size=200)
    marked = rng.random(200) < 0.2 + 0.05 * strata
    values = rng.normal(size=200) + strata
    kept = in_mixed_strata(marked, strata)
    design = np.stack([marked, *(strata == number for number in range(12))], axis=1)[kept].astype(float)
    coefficient = np.linalg.lstsq(design, values[kept])[0][0]
    assert difference(values, marked, strata).estimate == pytest.approx(-coefficient)


def test_strata_of_other_sizes_do_not_confound() -> None:
    """Marked pairs are mostly in the stratum of small values; within strata nothing differs."""
    strata = np.repeat([0, 1, 2, 3], [40, 40, 40, 40])
    marked = np.concatenate([np.arange(40) < count for count in (30, 30, 4, 4)])
    values = np.where(strata < 2, 1.0, 5.0)
    found = difference(values, marked, strata)
    assert found.estimate == pytest.approx(0, abs=1e-12)
    assert found.p_value == 1


def test_nothing_to_compare() -> None:
    assert matched_difference(VALUES, np.ones(7, dtype=bool), STRATA) is None
    assert matched_difference(VALUES, MARKED & (STRATA == 4), STRATA) is None  # one stratum only
    nothing = np.zeros(0)
    assert matched_difference(nothing, nothing.astype(bool), nothing.astype(int)) is None
    with pytest.raises(ValueError, match="resamples must be at least 1"):
        matched_difference(VALUES, MARKED, STRATA, resamples=0)


def test_a_reference_takes_its_own_difference_away() -> None:
    """Marked pairs are easier for the reference by 1; the model follows it by half, and gains 0.25 more."""
    rng = np.random.default_rng(5)
    strata = np.repeat(np.arange(50), 40)
    marked = rng.random(2000) < 0.5
    reference = rng.normal(size=2000) - marked
    values = 0.5 * reference - 0.25 * marked
    adjusted, slope = without_reference(values, reference, marked, strata)
    assert difference(values, marked, strata).estimate == pytest.approx(0.75, abs=0.04)
    # The slope is blind to the marks, so part of the gain goes to the reference, as it should.
    assert slope == pytest.approx(0.5 + 0.25 * 0.25 / 1.25, abs=0.02)
    assert difference(adjusted, marked, strata).estimate == pytest.approx(0.75 - slope, abs=0.04)
    assert without_reference(values, np.zeros(2000), marked, strata)[1] == 0
    assert without_reference(values, values, marked, strata)[1] == pytest.approx(1)
    same = without_reference(values, reference, marked, np.arange(2000))
    assert same[0] is values
    assert same[1] == 0


RUNS = 400
PAIRS = 600


def simulated(rng: np.random.Generator, effect: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Skewed errors whose scale and share of marks depend on the stratum, less a noisy reference."""
    strata = rng.integers(40, size=PAIRS)
    scale = 0.3 + rng.random(40)[strata]
    marked = rng.random(PAIRS) < np.linspace(0.05, 0.9, 40)[strata]
    common = rng.exponential(size=PAIRS)
    values = scale * (common + rng.exponential(size=PAIRS)) - effect * marked
    reference = scale * (common + rng.exponential(size=PAIRS))
    return without_reference(values, reference, marked, strata)[0], marked, strata


@pytest.mark.slow
def test_false_alarms_are_as_rare_as_promised() -> None:
    rng = np.random.default_rng(0)
    alarms = sum(
        difference(*simulated(rng, 0.0), resamples=99, seed=run).p_value <= 0.05 for run in range(RUNS)
    )
    assert stats.binomtest(alarms, RUNS, 0.05, alternative="greater").pvalue > 0.01
    assert alarms > 0.02 * RUNS  # nor is the test idle


@pytest.mark.slow
def test_the_detectable_difference_is_found_in_four_of_five_runs() -> None:
    rng = np.random.default_rng(1)
    typical = np.mean([difference(*simulated(rng, 0.0), resamples=1).detectable for _ in range(50)])
    found = [difference(*simulated(rng, float(typical)), resamples=99, seed=run) for run in range(RUNS)]
    power = sum(one.p_value <= 0.05 for one in found)
    assert stats.binomtest(power, RUNS, 0.8).pvalue > 0.01
    assert np.mean([one.estimate for one in found]) == pytest.approx(typical, rel=0.1)
    covered = sum(one.low <= typical <= one.high for one in found)
    assert 0.90 <= covered / RUNS <= 0.98
