"""Scores on clean pairs, against scipy on the rows that are left."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sts_lightning.data.leaked_rows import LeakedRows, SetLeaks, hash_scores
from sts_lightning.evaluation.clean_subset import CleanScore, clean_scores

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
    found = clean_scores(PREDICTIONS, leaks(KINDS))
    assert found is not None
    rows = {"one": np.arange(1, 30, 3), "two": np.array([r for r in range(20) if r % 5 < 3])}
    for name, (cosines, gold) in PREDICTIONS.items():
        kept = rows[name]
        assert found[name] == CleanScore(
            pytest.approx(100 * stats.spearmanr(cosines, gold).statistic),
            pytest.approx(100 * stats.spearmanr(cosines[kept], gold[kept]).statistic),
            len(gold),
            len(kept),
        )
    assert found["average"].clean == pytest.approx((found["one"].clean + found["two"].clean) / 2)
    assert found["average"].official == pytest.approx((found["one"].official + found["two"].official) / 2)
    assert (found["average"].pairs, found["average"].clean_pairs) == (50, 22)


def test_without_leaks_both_are_equal() -> None:
    found = clean_scores(PREDICTIONS, leaks({name: np.full(len(gold), "") for name, gold in GOLD.items()}))
    assert found is not None
    assert found["average"].clean == found["average"].official


def test_undefined() -> None:
    assert clean_scores({"one": PREDICTIONS["two"]}, leaks(KINDS)) is None
    assert clean_scores({"three": PREDICTIONS["two"]}, leaks(KINDS)) is None
    everything = {**KINDS, "two": np.full(20, "exact")}
    assert clean_scores(PREDICTIONS, leaks(everything)) is None
    assert clean_scores({"one": PREDICTIONS["one"]}, leaks(everything)) is not None
