"""The regression on pairs, against one whose gradient and Adam steps are written out here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, spearmanr

from sts_lightning.data.readers.supervised_sts import RelatednessTask, ScoredPairs
from sts_lightning.evaluation.relatedness import evaluate_relatedness, level_targets

DIMENSION = 4
LEVELS = np.arange(1, 6)


class Vectors:
    """An encoder whose sentences are numbers: the rows of a table."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows

    def encode(self, sentences: Sequence[str], /) -> np.ndarray:
        return self.rows[[int(text) for text in sentences]]


def test_targets_by_hand() -> None:
    expected = [
        [1, 0, 0, 0, 0],
        [0, 0.75, 0.25, 0, 0],
        [0, 0, 0, 0.5, 0.5],
        [0, 0, 0, 0, 1],
        [0.5, 0, 0, 0, 0],  # of the mass of STS-B's 0.5 half would be on a level that is not there
        [0, 0, 0, 0, 0],
    ]
    found = level_targets(np.array([1, 2.25, 4.5, 5, 0.5, 0]))
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-7)


def test_equal_vectors_order_nothing() -> None:
    pairs = [("0", "1")] * 12
    part = ScoredPairs(pairs, np.linspace(1, 5, 12))
    found = evaluate_relatedness(
        Vectors(np.ones((2, DIMENSION), np.float32)), [RelatednessTask("x", part, part, part)]
    )
    assert found["tasks"]["x"] == {"spearman": 0.0, "pearson": 0.0, "dev": 0.0, "examples": 12}


def softmax(logits: np.ndarray) -> np.ndarray:
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


class WrittenOut:
    """SentEval's regression in float64; start and order of examples are those of torch and NumPy."""

    def __init__(self, width: int) -> None:
        torch.manual_seed(1111)
        layer = torch.nn.Linear(width, 5)
        self.weights = torch.cat([layer.weight, layer.bias[:, None]], dim=1).double().detach().numpy()
        self.first, self.second = np.zeros_like(self.weights), np.zeros_like(self.weights)
        self.steps = 0

    def predict(self, x: np.ndarray) -> np.ndarray:
        return softmax(np.c_[x, np.ones(len(x))] @ self.weights.T) @ LEVELS

    def step(self, x: np.ndarray, target: np.ndarray) -> None:
        x = np.c_[x, np.ones(len(x))]
        shares = softmax(x @ self.weights.T)
        slope = 2 * (shares - target) / target.size
        logits = shares * (slope - (slope * shares).sum(axis=1, keepdims=True))
        gradient = logits.T @ x
        self.steps += 1
        self.first = 0.9 * self.first + 0.1 * gradient
        self.second = 0.999 * self.second + 0.001 * gradient**2
        first, second = self.first / (1 - 0.9**self.steps), self.second / (1 - 0.999**self.steps)
        self.weights = self.weights - 0.001 * first / (np.sqrt(second) + 1e-8)


def features(vectors: np.ndarray, part: ScoredPairs) -> np.ndarray:
    u, v = (vectors[[int(pair[side]) for pair in part.pairs]].astype(np.float64) for side in (0, 1))
    return np.c_[np.abs(u - v), u * v]


def test_against_the_regression_written_out() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(150, DIMENSION)).astype(np.float32)
    pairs = [(str(i), str(j)) for i, j in rng.permutation(150).reshape(-1, 2)]
    distance = np.array([np.linalg.norm(vectors[int(i)] - vectors[int(j)]) for i, j in pairs])
    scores = np.clip(5 - distance + 0.7 * rng.normal(size=len(pairs)), 1, 5)
    parts = [
        ScoredPairs(pairs[start:stop], scores[start:stop]) for start, stop in ((0, 40), (40, 55), (55, 75))
    ]
    found = evaluate_relatedness(Vectors(vectors), [RelatednessTask("x", *parts)])

    train, dev, test = parts
    inputs, model, order = features(vectors, train), WrittenOut(2 * DIMENSION), np.random.RandomState(1111)
    best, kept, misses, looks = -1.0, model.weights, 0, 0
    while looks < 21:  # after 1,000 epochs it looks once more
        for _ in range(50):
            rows = order.permutation(40)  # one batch
            model.step(inputs[rows], level_targets(train.scores).numpy()[rows])
        looks += 1
        score = pearsonr(model.predict(features(vectors, dev)), dev.scores)[0]
        if score > best:
            best, kept = score, model.weights
        elif misses == 3:
            break
        else:
            misses += 1
    model.weights = kept
    predicted = model.predict(features(vectors, test))
    assert found["tasks"]["x"] == pytest.approx(
        {
            "pearson": 100 * pearsonr(predicted, test.scores)[0],
            "spearman": 100 * spearmanr(predicted, test.scores)[0],
            "dev": 100 * best,
            "examples": 20,
        },
        abs=1e-2,
    )
    assert found["average"] == found["tasks"]["x"]["spearman"]
    assert 50 < found["average"] < 100
