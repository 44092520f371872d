"""Scores of pairs with two labels: average precision, and F1 and accuracy at a threshold of the cosine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict

import numpy as np

ChosenOn = Literal["dev", "same"]
"""Pairs on which thresholds were chosen: dev pairs, or those that are scored, which flatters the scores."""


class BinaryScores(TypedDict):
    """Scores times 100 of pairs with two labels, of which the higher one is positive.

    Average precision needs no threshold. A pair is predicted positive if its cosine is at least the
    threshold; F1 and accuracy have one each.
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

    Pairs of equal cosine enter together, so that their order does not matter.

    Args:
        cosines: Cosines, (N,).
        gold: Gold scores of two values, (N,).
    """
    found, predicted, _ = _counts(cosines, gold)
    gained = np.diff(found, prepend=0) / found[-1]
    return float((gained * found / predicted).sum())


def best_thresholds(cosines: np.ndarray, gold: np.ndarray) -> Thresholds:
    """Find the thresholds of the best F1 and the best accuracy, halfway between two neighbouring cosines.

    Of equally good thresholds the highest wins.

    Args:
        cosines: Cosines, (N,).
        gold: Gold scores of two values, (N,).
    """
    found, predicted, values = _counts(cosines, gold)
    total = found[-1]
    f1 = 2 * found / (predicted + total)
    correct = found + (len(gold) - total) - (predicted - found)
    below = np.append((values[:-1] + values[1:]) / 2, values[-1])
    accuracy = float(below[correct.argmax()])
    if correct.max() < len(gold) - total:  # to predict no pair positive is better
        accuracy = float(np.nextafter(values[0], np.inf))
    return Thresholds(float(below[f1.argmax()]), accuracy)


def score_binary(cosines: np.ndarray, gold: np.ndarray, dev: Thresholds | None = None) -> BinaryScores:
    """Score pairs with two labels.

    Args:
        cosines: Cosines, (N,).
        gold: Gold scores of two values, (N,).
        dev: Thresholds chosen on dev pairs; the best ones on these pairs if not given.
    """
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
    where = {
        "dev": "thresholds chosen on the dev pairs",
        "same": "thresholds chosen on the same pairs, which flatters F1 and accuracy",
    }
    return (
        f"{name} has two labels: average precision {scores['average_precision']:.2f}, "
        f"F1 {scores['f1']:.2f} (cosine from {scores['f1_threshold']:.3f}), "
        f"accuracy {scores['accuracy']:.2f} (from {scores['accuracy_threshold']:.3f}); "
        f"{where[scores['chosen_on']]}"
    )


def _counts(cosines: np.ndarray, gold: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return positives and pairs from each distinct cosine up, with these cosines, descending."""
    values, place = np.unique(-cosines, return_inverse=True)
    predicted = np.bincount(place).cumsum()
    found = np.bincount(place, weights=gold == gold.max()).cumsum()
    return found, predicted, -values
