from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sts_lightning.evaluation.statistics import Predictions, paired_difference


def predictions(noise: float, seed: int, size: int = 300) -> Predictions:
    gold = np.round(np.random.default_rng(0).uniform(0, 5, size=size), 1)
    rng = np.random.default_rng(seed)
    return {task: (gold + noise * rng.normal(size=size), gold) for task in ("A", "B")}


def test_estimate_is_the_difference_of_mean_spearmans() -> None:
    ours, theirs = [predictions(1.0, 1), predictions(1.0, 2)], [predictions(3.0, 3)]
    found = paired_difference(ours, theirs, resamples=50)

    def mean(runs: list[Predictions], task: str) -> float:
        return float(np.mean([stats.spearmanr(*run[task]).statistic for run in runs]))

    for task in ("A", "B"):
        assert found[task].estimate == pytest.approx(100 * (mean(ours, task) - mean(theirs, task)))
    assert found["average"].estimate == pytest.approx((found["A"].estimate + found["B"].estimate) / 2)


def test_a_system_does_not_differ_from_itself() -> None:
    found = paired_difference([predictions(1.0, 1)], [predictions(1.0, 1)], resamples=20)["average"]
    assert (found.estimate, found.low, found.high) == (0.0, 0.0, 0.0)


def test_constant_cosines_count_as_zero() -> None:
    gold = np.arange(10.0)
    constant, perfect = {"A": (np.ones(10), gold)}, {"A": (gold, gold)}
    assert paired_difference([perfect], [constant], resamples=10)["A"].estimate == pytest.approx(100.0)


def test_gold_scores_on_another_scale_are_those_of_the_same_pairs() -> None:
    system, baseline = predictions(0.5, 1), predictions(1.0, 2)
    scaled = {task: (cosines, 1 + 6 * gold / 5) for task, (cosines, gold) in system.items()}
    plain, other = (paired_difference([one], [baseline], resamples=20) for one in (system, scaled))
    assert other == plain


def test_the_order_of_the_tasks_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    one = {name: (rng.normal(size=30), rng.normal(size=30)) for name in ("a", "b")}
    other = {name: (rng.normal(size=30), one[name][1]) for name in ("b", "a")}
    found = paired_difference([other], [one], 20)
    assert found == paired_difference([{name: other[name] for name in ("a", "b")}], [one], 20)
    assert found == paired_difference([other], [{name: one[name] for name in ("b", "a")}], 20)


def test_other_pairs_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="not scored on the same test pairs"):
        paired_difference([predictions(1.0, 1, size=300)], [predictions(1.0, 1, size=200)])
    with pytest.raises(ValueError, match="not scored on the same test pairs"):
        paired_difference([{"A": predictions(1.0, 1)["A"]}], [predictions(1.0, 1)])
