"""SentEval's PyTorch classifier, against one with torch's layers and global seeds, one penalty at a time."""

# ruff: noqa: NPY002 (SentEval draws from NumPy's global state)

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold

from sts_lightning.papers.classification import ClassificationTask, Split
from sts_lightning.papers.transfer import evaluate_transfer
from tests.unit.papers.test_transfer import Vectors, make, split

PENALTIES = [10.0**power for power in (-5, -4, -3, -2)]

Examples = tuple[np.ndarray, np.ndarray]


class Reference:
    """What SentEval's ``MLP`` does with nhid 0, adam, batch_size 64, tenacity 5 and epoch_size 4."""

    def __init__(self, width: int, classes: int, penalty: float) -> None:
        np.random.seed(1111)
        torch.manual_seed(1111)
        self.model = torch.nn.Linear(width, classes)
        self.optimizer = torch.optim.Adam(self.model.parameters(), weight_decay=penalty)
        self.epochs = 0

    def fit(self, x: np.ndarray, y: np.ndarray, dev: Examples | None = None) -> Reference:
        if dev is None:
            order = np.random.permutation(len(x))
            cut = int(0.05 * len(x))
            dev = x[order[:cut]], y[order[:cut]]
            x, y = x[order[cut:]], y[order[cut:]]
        best, count, stop = -1.0, 0, False
        while not stop and self.epochs <= 200:
            for _ in range(4):
                self.epoch(torch.tensor(x), torch.tensor(y))
            accuracy = self.accuracy(dev)
            if accuracy > best:
                best, kept = accuracy, copy.deepcopy(self.model)
            else:
                stop = count >= 5
                count += 1
        self.model = kept
        return self

    def epoch(self, x: torch.Tensor, y: torch.Tensor) -> None:
        order = np.random.permutation(len(x))
        for start in range(0, len(x), 64):
            rows = order[start : start + 64]
            self.optimizer.zero_grad()
            torch.nn.functional.cross_entropy(self.model(x[rows]), y[rows]).backward()
            self.optimizer.step()
        self.epochs += 1

    def predict(self, x: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return self.model(torch.tensor(x)).argmax(1).numpy()

    def accuracy(self, examples: Examples) -> float:
        return float(np.mean(self.predict(examples[0]) == examples[1]))


def nested(make_model: Callable[[float], Reference], x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Penalty of the best mean over two folds, and that mean."""
    means = []
    for penalty in PENALTIES:
        found = [
            make_model(penalty).fit(x[inner], y[inner], (x[outer], y[outer])).accuracy((x[outer], y[outer]))
            for inner, outer in StratifiedKFold(2, shuffle=True, random_state=1111).split(x, y)
        ]
        means.append(round(100 * np.mean(found), 2))
    return PENALTIES[int(np.argmax(means))], max(means)


def test_a_task_without_splits() -> None:
    x, y = make(150, 2, seed=1)
    found = evaluate_transfer(
        Vectors(x), [ClassificationTask("x", split(range(150), y))], folds=2, classifier="pytorch"
    )["tasks"]["x"]
    scores, dev_scores = [], []
    for inner, outer in StratifiedKFold(2, shuffle=True, random_state=1111).split(x, y):
        penalty, dev_score = nested(lambda value: Reference(6, 2, value), x[inner], y[inner])
        model = Reference(6, 2, penalty).fit(x[inner], y[inner])
        scores.append(100 * model.accuracy((x[outer], y[outer])))
        dev_scores.append(dev_score)
    assert found["score"] == pytest.approx(np.mean(scores), abs=0.005)
    assert found["dev"] == pytest.approx(np.mean(dev_scores))


def test_a_task_of_pairs_with_a_test_split_leaves_global_random_states_alone() -> None:
    x, y = make(200, 3, seed=2)
    pairs = [(str(i), str((i + 7) % 200)) for i in range(200)]
    labels = [int(y[i] == y[(i + 7) % 200]) for i in range(200)]
    task = ClassificationTask("x", Split(pairs[:140], labels[:140]), test=Split(pairs[140:], labels[140:]))
    states = np.random.get_state()[1].copy(), torch.get_rng_state()
    found = evaluate_transfer(Vectors(x), [task], folds=2, classifier="pytorch")["tasks"]["x"]
    assert (np.random.get_state()[1] == states[0]).all()
    assert torch.equal(torch.get_rng_state(), states[1])

    other, gold = np.roll(x, -7, axis=0), np.array(labels)
    features = np.concatenate([abs(x - other), x * other], axis=1)
    penalty, dev_score = nested(lambda value: Reference(12, 2, value), features[:140], gold[:140])
    model = Reference(12, 2, penalty).fit(features[:140], gold[:140])
    assert found["dev"] == pytest.approx(dev_score)
    assert found["score"] == pytest.approx(100 * model.accuracy((features[140:], gold[140:])))
    assert found["f1"] == pytest.approx(100 * f1_score(gold[140:], model.predict(features[140:])))


def with_dev(x: np.ndarray, y: np.ndarray, parts: list[range]) -> Reference:
    """Compare a task with train, dev and test split; return the reference of the chosen penalty."""
    found = evaluate_transfer(
        Vectors(x), [ClassificationTask("x", *(split(part, y) for part in parts))], classifier="pytorch"
    )["tasks"]["x"]
    train, dev, test = ((x[part], y[part]) for part in map(list, parts))
    models = [Reference(x.shape[1], int(y.max()) + 1, penalty).fit(*train, dev) for penalty in PENALTIES]
    accuracies = [round(100 * model.accuracy(dev), 2) for model in models]
    chosen = models[int(np.argmax(accuracies))]
    assert found["dev"] == pytest.approx(max(accuracies))
    assert found["score"] == pytest.approx(100 * chosen.accuracy(test))
    return chosen


def test_a_task_with_a_dev_split() -> None:
    """The largest penalty is the best one here, and another stops first that would get better again."""
    x, y = make(600, 4, seed=1)
    assert with_dev(x, y, [range(150), range(150, 300), range(300, 600)]).epochs < 200


def test_a_task_that_still_gets_better_ends_after_204_epochs() -> None:
    """A threshold on a line moves a little with each step."""
    x = np.random.default_rng(0).uniform(-4, 4, size=(4064, 1)).astype(np.float32)
    y = (x[:, 0] > 2).astype(np.int64)
    assert with_dev(x, y, [range(64), range(64, 2064), range(2064, 4064)]).epochs == 204
