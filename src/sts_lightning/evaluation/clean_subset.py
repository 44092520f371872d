"""Scores on the test pairs that occur in no training set, beside those on all pairs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sts_lightning.data.leaked_rows import CLEAN, LeakedRows
from sts_lightning.evaluation.bootstrap import Predictions
from sts_lightning.evaluation.correlation import correlate


@dataclass(frozen=True)
class CleanScore:
    """Spearman's correlation times 100 on all pairs of a test set and on its clean pairs.

    Attributes:
        official: Score on all pairs (SentEval's aggregate ``all``).
        clean: Score on the pairs that occur in no training set.
        pairs: Number of all pairs.
        clean_pairs: Number of clean pairs.
    """

    official: float
    clean: float
    pairs: int
    clean_pairs: int


def clean_scores(predictions: Predictions, leaks: LeakedRows) -> dict[str, CleanScore] | None:
    """Score all pairs and the clean pairs of each test set; ``average`` is the plain mean over the sets.

    Pairs of every kind are left out, nearly equal ones too. The clean pairs are other pairs than all, easier
    or harder: compare models on them, not the two scores of a model.

    Args:
        predictions: Cosines and gold scores of each test set.
        leaks: Test pairs that occur in training sets.

    Returns:
        Scores by test set; None if these are other test sets, or the clean gold scores of one are all equal.
    """
    if not leaks.fits({task: gold for task, (_, gold) in predictions.items()}):
        return None
    found = {}
    for task, (cosines, gold) in predictions.items():
        clean = leaks.tests[task].kinds == CLEAN
        if len(np.unique(gold[clean])) < 2:
            return None
        official, own = correlate(cosines, gold), correlate(cosines[clean], gold[clean])
        found[task] = CleanScore(official["spearman"], own["spearman"], len(gold), own["pairs"])
    found["average"] = _average(found)
    return found


def _average(scores: Mapping[str, CleanScore]) -> CleanScore:
    sets = scores.values()
    return CleanScore(
        statistics.mean(score.official for score in sets),
        statistics.mean(score.clean for score in sets),
        sum(score.pairs for score in sets),
        sum(score.clean_pairs for score in sets),
    )
