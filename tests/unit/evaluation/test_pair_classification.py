"""Scores of two labels against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, average_precision_score, f1_score

from sts_lightning.data.readers.sts_sets import STSTask
from sts_lightning.data.table import Table
from sts_lightning.evaluation.pair_classification import (
    average_precision,
    best_thresholds,
    describe,
    is_binary,
    score_binary,
)
from sts_lightning.evaluation.sts import describe_binary, score_tasks


def pairs(seed: int, ties: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    gold = rng.integers(2, size=60).astype(float)
    gold[:2] = 0, 1
    cosines = np.tanh(rng.normal(size=60) + gold)
    return (cosines.round(1) if ties else cosines), gold


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_scores_are_those_of_scikit_learn(seed: int, ties: bool) -> None:
    cosines, gold = pairs(seed, ties)
    assert average_precision(cosines, gold) == pytest.approx(average_precision_score(gold, cosines))
    found = best_thresholds(cosines, gold)
    cuts = [*np.unique(cosines), 2.0]
    assert f1_score(gold, cosines >= found.f1) == max(
        f1_score(gold, cosines >= cut, zero_division=0) for cut in cuts
    )
    assert accuracy_score(gold, cosines >= found.accuracy) == max(
        accuracy_score(gold, cosines >= cut) for cut in cuts
    )
    scores = score_binary(cosines, 5 * gold)  # any two values
    assert scores["f1"] == pytest.approx(100 * f1_score(gold, cosines >= found.f1))
    assert scores["accuracy"] == pytest.approx(100 * accuracy_score(gold, cosines >= found.accuracy))
    assert scores["chosen_on"] == "same"


def test_dev_thresholds_are_used_as_they_are() -> None:
    dev = best_thresholds(*pairs(1))
    cosines, gold = pairs(2)
    scores = score_binary(cosines, gold, dev)
    assert scores["f1"] == pytest.approx(100 * f1_score(gold, cosines >= dev.f1))
    assert scores["accuracy"] == pytest.approx(100 * accuracy_score(gold, cosines >= dev.accuracy))
    assert (scores["f1_threshold"], scores["chosen_on"]) == (dev.f1, "dev")
    assert "dev pairs" in describe("test", scores)


def test_no_pair_may_be_positive() -> None:
    cosines, gold = np.array([0.9, 0.5, 0.4, 0.1]), np.array([0, 0, 0, 1.0])
    found = best_thresholds(cosines, gold)
    assert (cosines >= found.accuracy).sum() == 0
    assert score_binary(cosines, gold)["accuracy"] == 75


def test_all_cosines_equal() -> None:
    scores = score_binary(np.full(4, 0.5), np.array([0, 1, 1, 1.0]))
    assert (scores["average_precision"], scores["accuracy"]) == (75, 75)
    assert scores["f1"] == pytest.approx(100 * 6 / 7)


def test_only_tasks_with_two_labels_have_them() -> None:
    assert not is_binary(np.array([0, 0.5, 1]))
    cosines, gold = pairs(3)
    tables = [
        Table({"sentence1": ["a"] * 60, "sentence2": ["b"] * 60, "label": label})
        for label in (gold, np.arange(60.0))
    ]
    tasks = [STSTask(name, {"test": table}) for name, table in zip(("two", "many"), tables, strict=True)]
    result = score_tasks(tasks, [cosines, cosines], "all", best_thresholds(*pairs(1)))
    assert result["tasks"]["two"]["binary"]["chosen_on"] == "dev"
    assert "binary" not in result["tasks"]["many"]
    assert [line.split()[0] for line in describe_binary(result["tasks"])] == ["two"]
