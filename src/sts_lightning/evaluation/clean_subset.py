"""The score on the test pairs that occur in no training set, beside that on all pairs."""

from __future__ import annotations

import statistics

import numpy as np

from sts_lightning.data.leaked_rows import CLEAN, LeakedRows
from sts_lightning.evaluation.bootstrap import Predictions
from sts_lightning.evaluation.correlation import correlate


def clean_average(predictions: Predictions, leaks: LeakedRows) -> float | None:
    """Return the mean over test sets of Spearman's correlation times 100 on their clean pairs.

    Pairs of every kind are left out, nearly equal ones too. The clean pairs are other pairs than all, easier
    or harder: compare models on them, not the two scores of a model.

    Args:
        predictions: Cosines and gold scores of each test set.
        leaks: Test pairs that occur in training sets.

    Returns:
        The mean; None if these are other test sets, or the clean gold scores of one are all equal.
    """
    if not leaks.fits({task: gold for task, (_, gold) in predictions.items()}):
        return None
    scores = []
    for task, (cosines, gold) in predictions.items():
        clean = leaks.tests[task].kinds == CLEAN
        if len(np.unique(gold[clean])) < 2:
            return None
        scores.append(correlate(cosines[clean], gold[clean])["spearman"])
    return statistics.mean(scores)
