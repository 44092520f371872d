"""Scores of pairs with two labels: average precision, and F1 and accuracy at a threshold of the cosine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict

import numpy as np

ChosenOn = Literal["dev", "same"]
"""Pairs on which thresholds were chosen: dev pairs, or the scored pairs, which flatters the scores."""


class BinaryScores(TypedDict):
    """Scores times 100 of pairs with two labels; the higher label is positive.

    A pair is predicted positive if its cosine is at least the threshold. F1 and accuracy have different
    thresholds, average precision needs none.
    """

    average_precision: float
    f1: float
    accuracy: float
    f1_threshold: float
    accuracy_threshold: float
    chosen_on: ChosenOn


@dataclass(frozen=True)
class Thresholds:
    """Cosines from which a pair is predicted positive, with the best F1 and with the best accuracy."""

    f1: float
    accuracy: float


def is_binary(gold: np.ndarray) -> bool:
    """Return whether gold scores have exactly two values."""
    return len(np.unique(gold)) == 2


def average_precision(cosines: np.ndarray, gold: np.ndarray) -> float:
    """Compute the mean precision over the increase in recall, sum_n (R_n - R_(n-1)) P_n, from 0 to 1.

    Pairs of equal cosine enter together, so that their order does not matter. Both arguments are (N,).
    """
    hits, predicted, _ = _counts(cosines, gold)
    recall_steps = np.diff(hits, prepend=0) / hits[-1]
    return float((recall_steps * hits / predicted).sum())


def best_thresholds(cosines: np.ndarray, gold: np.ndarray) -> Thresholds:
    """Find the thresholds of the best F1 and the best accuracy, halfway between two neighbouring cosines.

    Of equally good thresholds the highest wins. Both arguments are (N,).
    """
    hits, predicted, values = _counts(cosines, gold)
    positives = hits[-1]
    negatives = len(gold) - positives
    f1 = 2 * hits / (predicted + positives)
    correct = hits + negatives - (predicted - hits)
    below = np.append((values[:-1] + values[1:]) / 2, values[-1])
    accuracy = float(below[correct.argmax()])
    if correct.max() < negatives:  # to predict no pair positive is better
        accuracy = float(np.nextafter(values[0], np.inf))
    return Thresholds(float(below[f1.argmax()]), accuracy)


def _counts(cosines: np.ndarray, gold: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the positives and the pairs from each distinct cosine up, and these cosines, descending."""
    values, group = np.unique(-cosines, return_inverse=True)
    hits = np.bincount(group, weights=gold == gold.max()).cumsum()
    return hits, np.bincount(group).cumsum(), -values


def score_binary(cosines: np.ndarray, gold: np.ndarray, dev: Thresholds | None = None) -> BinaryScores:
    """Score pairs with two labels, by thresholds chosen on dev pairs, or else by the best on these pairs."""
    thresholds = dev or best_thresholds(cosines, gold)
    positive = gold == gold.max()
    predicted = cosines >= thresholds.f1
    f1 = 2 * (predicted & positive).sum() / (predicted.sum() + positive.sum())
    accuracy = ((cosines >= thresholds.accuracy) == positive).mean()
    return {
        "average_precision": 100 * average_precision(cosines, gold),
        "f1": 100 * float(f1),
        "accuracy": 100 * float(accuracy),
        "f1_threshold": thresholds.f1,
        "accuracy_threshold": thresholds.accuracy,
        "chosen_on": "same" if dev is None else "dev",
    }


def describe(name: str, scores: BinaryScores) -> str:
    """Return a line on the scores of a task."""
    pairs = "dev pairs" if scores["chosen_on"] == "dev" else "same pairs, which flatters F1 and accuracy"
    return (
        f"{name} has two labels: average precision {scores['average_precision']:.2f}, "
        f"F1 {scores['f1']:.2f} (cosine from {scores['f1_threshold']:.3f}), "
        f"accuracy {scores['accuracy']:.2f} (from {scores['accuracy_threshold']:.3f}); "
        f"thresholds chosen on the {pairs}"
    )
