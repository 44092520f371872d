from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from sts_lightning.data.readers.senteval import load_sts_tasks
from sts_lightning.evaluation.ceiling import ceiling, papers_ceiling


def scorers(gold: np.ndarray, levels: int) -> list[np.ndarray]:
    """All scorers of K values that follow the order of the gold scores."""
    order = np.argsort(gold, kind="stable")
    found = []
    for cuts in itertools.combinations(range(1, len(gold)), levels - 1):
        scores = np.empty(len(gold))
        scores[order] = np.searchsorted(cuts, np.arange(len(gold)), side="right")
        found.append(scores)
    return found


@pytest.mark.parametrize("levels", [2, 3, 4])
@pytest.mark.parametrize("ties", [False, True])
def test_equals_trying_all_of_them(levels: int, ties: bool) -> None:
    rng = np.random.default_rng(levels)
    gold = rng.integers(4, size=12).astype(float) if ties else rng.normal(size=12)
    best = max(stats.spearmanr(scores, gold).statistic for scores in scorers(gold, levels))
    found = ceiling(gold, levels)
    assert found.spearman == pytest.approx(100 * best)
    assert sum(found.sizes) == 12
    assert len(found.sizes) == levels


def test_no_binary_scorer_is_better_whatever_its_order() -> None:
    gold = np.array([0.0, 1.0, 1.0, 2.0, 3.0, 5.0, 5.0])
    values = [
        stats.spearmanr(scores, gold).statistic
        for scores in itertools.product((0, 1), repeat=7)
        if 0 < sum(scores) < 7
    ]
    assert ceiling(gold).spearman == pytest.approx(100 * max(values))


@pytest.mark.parametrize("levels", [2, 3, 5, 10])
def test_limit_without_ties(levels: int) -> None:
    found = ceiling(np.arange(5000), levels)
    assert found.spearman == pytest.approx(100 * math.sqrt(1 - 1 / levels**2), abs=0.01)
    assert max(found.sizes) - min(found.sizes) <= 22  # one place of the grid on either side


@pytest.mark.parametrize("sizes", [(4987, 7, 6), (19_950, 30, 20), (300, 2, 400_000)])
def test_more_values_than_gold_has_change_nothing(sizes: tuple[int, ...]) -> None:
    gold = np.repeat(np.arange(float(len(sizes))), sizes)
    assert ceiling(gold, 3).spearman == pytest.approx(100)
    assert ceiling(gold, 4).spearman == pytest.approx(100, abs=0.01)


def test_as_many_values_as_gold_has() -> None:
    gold = np.repeat([0.0, 1.0, 4.0], [5, 2, 3])
    found = ceiling(gold, 3)
    assert found.spearman == pytest.approx(100)
    assert found.sizes == (5, 2, 3)


def test_the_papers_formula_gives_seven_eighths() -> None:
    found = papers_ceiling(np.arange(2000))
    assert found.spearman == pytest.approx(87.5, abs=0.01)
    assert found.sizes == (1000, 1000)


def test_the_papers_formula_by_hand() -> None:
    gold = np.array([1.0, 2.0, 2.0, 4.0, 7.0])
    ranks = stats.rankdata(gold)
    by_hand = [1 - 6 * sum((stats.rankdata(scores) - ranks) ** 2) / (5 * 24) for scores in scorers(gold, 2)]
    assert papers_ceiling(gold).spearman == pytest.approx(100 * max(by_hand))


def test_what_has_no_ceiling() -> None:
    with pytest.raises(ValueError, match="all gold scores are equal"):
        ceiling(np.ones(4))
    with pytest.raises(ValueError, match="as many pairs"):
        ceiling(np.arange(2), 3)
    with pytest.raises(ValueError, match="at most 501 values"):
        ceiling(np.arange(1000.0), 502)
    assert ceiling(np.arange(1000.0), 501).spearman > 99.99
    with pytest.raises(ValueError, match="at least two values"):
        ceiling(np.arange(5), 1)


@pytest.mark.slow
def test_the_seven_test_sets(data_root: str) -> None:
    values = {}
    for task in load_sts_tasks(data_root):
        gold = np.concatenate([np.asarray(table["label"]) for table in task.subsets.values()])
        values[task.name] = ceiling(gold).spearman
        assert ceiling(gold, 3).spearman > values[task.name]
    assert min(values.values()) == pytest.approx(86.65, abs=0.01)
    assert max(values.values()) == pytest.approx(87.72, abs=0.01)
    assert np.mean(list(values.values())) == pytest.approx(86.84, abs=0.01)
