from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sts_lightning.evaluation.statistics import paired_difference, score_intervals
from tests.unit.evaluation.test_bootstrap import predictions


def test_interval_is_that_of_scipys_bootstrap() -> None:
    ours, theirs = predictions(1.0, 1), predictions(2.0, 2)

    def difference(first: np.ndarray, second: np.ndarray, gold: np.ndarray) -> float:
        a, b = (stats.spearmanr(cosines, gold).statistic for cosines in (first, second))
        return 100 * float(a - b)

    data = (ours["A"][0], theirs["A"][0], ours["A"][1])
    theirs_interval = stats.bootstrap(
        data, difference, paired=True, vectorized=False, n_resamples=2000, method="percentile", rng=0
    ).confidence_interval
    found = paired_difference([ours], [theirs], resamples=2000)["A"]
    assert found.low == pytest.approx(theirs_interval.low, abs=0.4)
    assert found.high == pytest.approx(theirs_interval.high, abs=0.4)
    assert str(found).startswith(f"{found.estimate:+.2f} [")


def test_intervals_cover_as_often_as_they_say() -> None:
    """Against scipy's bootstrap of the same statistic."""
    gold = np.random.default_rng(0).integers(0, 26, size=400) / 5
    cosines = gold + np.random.default_rng(3).normal(size=len(gold))

    def spearman(first: np.ndarray, second: np.ndarray) -> float:
        return 100 * float(stats.spearmanr(first, second).statistic)

    found = score_intervals([{"task": (cosines, gold)}], resamples=2000)["task"]
    reference = stats.bootstrap(
        (cosines, gold), spearman, paired=True, vectorized=False, n_resamples=2000, method="percentile", rng=0
    ).confidence_interval
    assert found.estimate == pytest.approx(spearman(cosines, gold))
    assert found.low == pytest.approx(reference.low, abs=0.4)
    assert found.high == pytest.approx(reference.high, abs=0.4)
