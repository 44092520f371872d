"""Logistic regression on vectors, against a regression that is solved here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from sts_lightning.papers.classification import ClassificationTask, Split
from sts_lightning.papers.transfer import GRIDS, evaluate_transfer

DIMENSION = 6


class Vectors:
    """An encoder whose sentences are numbers: the rows of a table."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows
        self.calls = 0

    def encode(self, sentences: Sequence[str], /) -> np.ndarray:
        self.calls += 1
        assert len(set(sentences)) == len(sentences)
        return self.rows[[int(text) for text in sentences]]


def make(size: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=size)
    return (rng.normal(size=(classes, DIMENSION))[labels] + 1.5 * rng.normal(size=(size, DIMENSION))).astype(
        np.float32
    ), labels


def solve(features: np.ndarray, labels: np.ndarray, strength: float) -> Callable[[np.ndarray], np.ndarray]:
    """Multinomial logistic regression with C = strength by BFGS on its definition; the bias is free."""
    classes = int(labels.max()) + 1
    x, target = features.astype(np.float64), np.eye(classes)[labels]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(classes, -1)
        logits = x @ weights[:, :-1].T + weights[:, -1]
        log_p = logits - logsumexp(logits, axis=1, keepdims=True)
        error = np.exp(log_p) - target
        gradient = np.concatenate([error.T @ x + weights[:, :-1] / strength, error.sum(0)[:, None]], axis=1)
        value = -(target * log_p).sum() + (weights[:, :-1] ** 2).sum() / (2 * strength)
        return float(value), gradient.ravel()

    weights = minimize(loss, np.zeros(classes * (x.shape[1] + 1)), jac=True, method="BFGS").x.reshape(
        classes, -1
    )
    return lambda rows: (rows @ weights[:, :-1].T + weights[:, -1]).argmax(axis=1)


def split(rows: range, labels: np.ndarray) -> Split:
    return Split([(str(row),) for row in rows], [int(labels[row]) for row in rows])


def test_a_task_with_a_dev_split_is_that_of_the_definition() -> None:
    vectors, labels = make(300, 3, seed=0)
    parts = [range(150), range(150, 220), range(220, 300)]
    task = ClassificationTask("x", *(split(part, labels) for part in parts))
    encoder = Vectors(vectors)
    found = evaluate_transfer(encoder, [task])["tasks"]["x"]

    def accuracy(strength: float, part: range) -> float:
        predict = solve(vectors[:150], labels[:150], strength)
        rows = list(part)
        return 100 * float(np.mean(predict(vectors[rows]) == labels[rows]))

    dev = [accuracy(strength, parts[1]) for strength in GRIDS["dev"]]
    chosen = GRIDS["dev"][int(np.argmax(dev))]
    assert found["dev"] == pytest.approx(max(dev), abs=0.005)
    assert found["score"] == pytest.approx(accuracy(chosen, parts[2]))
    assert found["f1"] is None
    assert found["examples"] == 80
    assert encoder.calls == 1


def test_pairs_are_read_as_difference_and_product() -> None:
    """Equal sentences are a class that only |u - v| shows."""
    rng = np.random.default_rng(2)
    vectors = rng.normal(size=(200, DIMENSION)).astype(np.float32)
    pairs = [(str(i), str(i)) if i % 2 else (str(i), str((i + 7) % 200)) for i in range(200)]
    labels = [i % 2 for i in range(200)]
    task = ClassificationTask("x", Split(pairs[:150], labels[:150]), test=Split(pairs[150:], labels[150:]))
    found = evaluate_transfer(Vectors(vectors), [task], folds=3)["tasks"]["x"]
    assert found["score"] >= 96
    assert found["f1"] is not None
    assert found["f1"] >= 96
