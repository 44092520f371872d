"""Scores on clean pairs, against scipy on the rows that are left."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sts_lightning.reproduce.leak_free import LeakedRows, SetLeaks, hash_scores, leak_free_average

RNG = np.random.default_rng(0)
GOLD = {"one": RNG.integers(6, size=30).astype(float), "two": RNG.random(20) * 5}
PREDICTIONS = {name: (gold + RNG.normal(size=len(gold)), gold) for name, gold in GOLD.items()}
KINDS = {
    "one": np.array(["exact", "", "near"] * 10),
    "two": np.array(["", "", "", "swapped", "normalized"] * 4),
}


def leaks(kinds: dict[str, np.ndarray]) -> LeakedRows:
    return LeakedRows(
        "mine", 0.8, {name: SetLeaks(hash_scores(GOLD[name]), own) for name, own in kinds.items()}
    )


def test_scores_of_the_rows_that_are_left() -> None:
    rows = {"one": np.arange(1, 30, 3), "two": np.array([r for r in range(20) if r % 5 < 3])}
    expected = [
        100 * stats.spearmanr(cosines[rows[name]], gold[rows[name]]).statistic
        for name, (cosines, gold) in PREDICTIONS.items()
    ]
    assert leak_free_average(PREDICTIONS, leaks(KINDS)) == pytest.approx(sum(expected) / 2)


def test_undefined() -> None:
    assert leak_free_average({"one": PREDICTIONS["two"]}, leaks(KINDS)) is None
    assert leak_free_average({"three": PREDICTIONS["two"]}, leaks(KINDS)) is None
    everything = {**KINDS, "two": np.full(20, "exact")}
    assert leak_free_average(PREDICTIONS, leaks(everything)) is None
    assert leak_free_average({"one": PREDICTIONS["one"]}, leaks(everything)) is not None
