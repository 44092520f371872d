from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from sts_lightning.papers.ceiling import ceiling, papers_ceiling


def scorers(gold: np.ndarray) -> list[np.ndarray]:
    """All scorers of two values that follow the order of the gold scores."""
    order = np.argsort(gold, kind="stable")
    found = []
    for below in range(1, len(gold)):
        scores = np.empty(len(gold))
        scores[order] = np.arange(len(gold)) >= below
        found.append(scores)
    return found


@pytest.mark.parametrize("ties", [False, True])
def test_equals_trying_all_of_them(ties: bool) -> None:
    rng = np.random.default_rng(2)
    gold = rng.integers(4, size=12).astype(float) if ties else rng.normal(size=12)
    best = max(stats.spearmanr(scores, gold).statistic for scores in scorers(gold))
    found = ceiling(gold)
    assert found == pytest.approx(100 * best)


def test_no_binary_scorer_is_better_whatever_its_order() -> None:
    gold = np.array([0.0, 1.0, 1.0, 2.0, 3.0, 5.0, 5.0])
    values = [
        stats.spearmanr(scores, gold).statistic
        for scores in itertools.product((0, 1), repeat=7)
        if 0 < sum(scores) < 7
    ]
    assert ceiling(gold) == pytest.approx(100 * max(values))


def test_limit_without_ties() -> None:
    found = ceiling(np.arange(5000))
    assert found == pytest.approx(100 * math.sqrt(3 / 4), abs=0.01)


def test_the_papers_formula_gives_seven_eighths() -> None:
    found = papers_ceiling(np.arange(2000))
    assert found == pytest.approx(87.5, abs=0.01)


def test_the_papers_formula_by_hand() -> None:
    gold = np.array([1.0, 2.0, 2.0, 4.0, 7.0])
    ranks = stats.rankdata(gold)
    by_hand = [1 - 6 * sum((stats.rankdata(scores) - ranks) ** 2) / (5 * 24) for scores in scorers(gold)]
    assert papers_ceiling(gold) == pytest.approx(100 * max(by_hand))


def test_what_has_no_ceiling() -> None:
    with pytest.raises(ValueError, match="all gold scores are equal"):
        ceiling(np.ones(4))
    with pytest.raises(ValueError, match="all gold scores are equal"):
        ceiling(np.arange(1))
