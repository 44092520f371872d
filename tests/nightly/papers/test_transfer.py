"""Logistic regression on vectors, against a regression that is solved here."""

from __future__ import annotations

import numpy as np
import pytest

from sts_lightning.papers.classification import ClassificationTask
from sts_lightning.papers.transfer import GRIDS, evaluate_transfer
from tests.unit.papers.test_transfer import Vectors, make, solve, split


def test_cross_validation_is_nested() -> None:
    """Each outer fold's penalty is chosen within the rest; the folds are counted by hand."""
    vectors, labels = make(60, 2, seed=1)
    task = ClassificationTask("x", split(range(60), labels))
    found = evaluate_transfer(Vectors(vectors), [task], folds=3)["tasks"]["x"]
    from sklearn.model_selection import StratifiedKFold

    scores = []
    folds = StratifiedKFold(3, shuffle=True, random_state=1111)
    for inner, outer in folds.split(vectors, labels):
        means = []
        for strength in GRIDS["outer folds"]:
            hits = []
            for train, held_out in folds.split(vectors[inner], labels[inner]):
                predict = solve(vectors[inner][train], labels[inner][train], strength)
                hits.append(np.mean(predict(vectors[inner][held_out]) == labels[inner][held_out]))
            means.append(round(100 * float(np.mean(hits)), 2))
        predict = solve(vectors[inner], labels[inner], GRIDS["outer folds"][int(np.argmax(means))])
        scores.append(100 * np.mean(predict(vectors[outer]) == labels[outer]))
    assert found["score"] == pytest.approx(np.mean(scores), abs=0.01)
