"""Transfer and probing tasks by SentEval's protocol: logistic regression on frozen sentence vectors."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Sequence
from typing import TypedDict

import numpy as np

from sts_lightning.core.choices import Classifier
from sts_lightning.core.errors import ConfigError
from sts_lightning.evaluation.encoding import Encoder, encode_distinct
from sts_lightning.papers.classification import ClassificationTask
from sts_lightning.papers.senteval_classifier import EarlyStopped, Examples, Predict

log = logging.getLogger(__name__)


class Accuracy(TypedDict):
    """Accuracy of a task, accuracy by which its penalty was chosen, and F1 of a task of pairs, times 100."""

    score: float
    dev: float
    f1: float | None
    examples: int


class TransferResult(TypedDict):
    """Accuracies by task; ``average`` is their plain mean."""

    average: float
    tasks: dict[str, Accuracy]


def evaluate_transfer(
    encoder: Encoder,
    tasks: Sequence[ClassificationTask],
    folds: int = 10,
    classifier: Classifier = "sklearn",
) -> TransferResult:
    """Train a logistic regression for each task on vectors that are computed once.

    Features are the vector of a sentence, or [|u - v|; u * v] of a pair. The L2 penalty is chosen on the
    dev split, or by cross-validation on the training examples. Tasks without a test split are scored by an
    outer cross-validation. Folds, grids and solvers are SentEval's.

    Args:
        encoder: Encoder to evaluate; it is frozen.
        tasks: At least one.
        folds: Number of folds of each cross-validation; SentEval's reports use 10.
        classifier: How the regression is trained.

    Raises:
        ConfigError: scikit-learn is not installed.
    """
    try:
        from threadpoolctl import threadpool_limits  # comes with scikit-learn
    except ImportError as error:
        raise ConfigError(
            "transfer and probing tasks need scikit-learn: pip install 'sts-lightning[transfer]'."
        ) from error
    features = FrozenFeatures(encoder, (text for task in tasks for text in _texts(task)))
    results: dict[str, Accuracy] = {}
    for task in tasks:
        splits = [
            None if split is None else (features(split.sentences), np.asarray(split.labels))
            for split in (task.train, task.dev, task.test)
        ]
        # In hundreds of small fits threads would mostly wait for each other.
        with threadpool_limits(limits=1):
            results[task.name] = _score(task, splits, folds, classifier)
        log.info("%s: %.2f", task.name, results[task.name]["score"])
    average = float(np.mean([result["score"] for result in results.values()]))
    return {"average": average, "tasks": results}


class FrozenFeatures:
    """Features by SentEval's protocol, from vectors that are computed once for each distinct sentence.

    Args:
        encoder: Frozen encoder.
        texts: All sentences whose features will be needed.
    """

    def __init__(self, encoder: Encoder, texts: Iterable[str]) -> None:
        distinct = list(dict.fromkeys(texts))
        log.info("%s sentences to encode", f"{len(distinct):,}")
        self._vectors = encode_distinct(encoder, distinct)

    def __call__(self, examples: Sequence[tuple[str, ...]]) -> np.ndarray:
        """Return the vector of each sentence (N, D), or [|u - v|; u * v] of each pair (N, 2 D)."""
        columns = [
            self._vectors[column].astype(np.float32, copy=False) for column in zip(*examples, strict=True)
        ]
        if len(columns) == 1:
            return columns[0]
        first, second = columns
        return np.concatenate([np.abs(first - second), first * second], axis=1)


GRIDS = {
    "outer folds": tuple(2.0**power for power in range(-2, 4)),
    "test": tuple(2.0**power for power in range(-1, 6)),
    "dev": tuple(2.0**power for power in range(-2, 4)),
}
"""Inverse strengths of the L2 penalty that SentEval tries, by the split that scores them.

See its `validation.py
<https://github.com/facebookresearch/SentEval/blob/5d6dc117d1ac30357ddaeb7347fb5684e9b87015/senteval/tools/validation.py>`_.
"""


def _texts(task: ClassificationTask) -> list[str]:
    splits = [split for split in (task.train, task.dev, task.test) if split is not None]
    return [text for split in splits for sentences in split.sentences for text in sentences]


def _score(
    task: ClassificationTask, splits: Sequence[Examples | None], folds: int, classifier: Classifier
) -> Accuracy:
    train, dev, test = splits
    assert train is not None
    regression = _Converged() if classifier == "sklearn" else EarlyStopped(int(train[1].max()) + 1)
    grids = regression.grids
    if test is None:
        scores, chosen_scores = [], []
        for inner, outer in _folds(train[1], folds):
            held_in, held_out = (_take(train, rows) for rows in (inner, outer))
            penalty, chosen = _choose(regression, held_in, folds, grids["outer folds"])
            predict = regression.fit(held_in, penalty)
            scores.append(round(100 * _accuracy(predict, held_out), 2))  # rounded as in SentEval
            chosen_scores.append(chosen)
        score, dev_score = float(np.mean(scores)), float(np.mean(chosen_scores))
        return Accuracy(score=score, dev=dev_score, f1=None, examples=len(train[1]))
    if dev is None:
        penalty, chosen = _choose(regression, train, folds, grids["test"])
    else:
        accuracies = [round(100 * value, 2) for value in regression.accuracies(train, dev, grids["dev"])]
        penalty, chosen = max(zip(grids["dev"], accuracies, strict=True), key=lambda item: item[1])
    predict = regression.fit(train, penalty, dev)
    f1 = None
    if len(task.train.sentences[0]) == 2:
        predicted, gold = predict(test[0]), test[1]
        f1 = 200 * float((predicted & gold).sum() / (predicted.sum() + gold.sum()))
    return Accuracy(score=100 * _accuracy(predict, test), dev=chosen, f1=f1, examples=len(test[1]))


def _choose(
    regression: _Converged | EarlyStopped, examples: Examples, folds: int, grid: Sequence[float]
) -> tuple[float, float]:
    """Return the penalty with the best mean accuracy over folds, rounded as in SentEval, with that mean."""
    accuracies = [
        regression.accuracies(_take(examples, inner), _take(examples, outer), grid)
        for inner, outer in _folds(examples[1], folds)
    ]
    means = [float(round(100 * np.mean(column), 2)) for column in zip(*accuracies, strict=True)]
    best = int(np.argmax(means))
    return grid[best], means[best]


def _folds(labels: np.ndarray, folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
    from sklearn.model_selection import StratifiedKFold

    splitter = StratifiedKFold(n_splits=folds, shuffle=True, random_state=1111)  # SentEval's seed
    return list(splitter.split(np.zeros(len(labels)), labels))


def _take(examples: Examples, rows: np.ndarray) -> Examples:
    return examples[0][rows], examples[1][rows]


class _Converged:
    """scikit-learn's logistic regression, as SentEval's with ``usepytorch=False``."""

    grids = GRIDS

    def accuracies(self, train: Examples, dev: Examples, strengths: Sequence[float]) -> list[float]:
        return [_accuracy(self.fit(train, strength), dev) for strength in strengths]

    def fit(self, train: Examples, strength: float, dev: Examples | None = None) -> Predict:
        """Train on ``train``; ``dev`` stays unread."""
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(C=strength)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # 100 iterations, as in SentEval, are not always enough
            predict: Predict = model.fit(*train).predict
        return predict


def _accuracy(predict: Predict, examples: Examples) -> float:
    return float(np.mean(predict(examples[0]) == examples[1]))
