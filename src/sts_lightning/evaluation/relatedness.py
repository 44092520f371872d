"""SentEval's supervised variants of STS-B and SICK-R: a regression on frozen vectors of pairs."""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from typing import TypedDict

import numpy as np
import torch
from torch import Tensor, nn

from sts_lightning.data.readers.supervised_sts import RelatednessTask
from sts_lightning.evaluation.correlation import correlate
from sts_lightning.evaluation.encoding import Encoder
from sts_lightning.evaluation.features import FrozenFeatures

log = logging.getLogger(__name__)

LEVELS = 5
BATCH_SIZE = 64
EPOCHS_PER_CHECK = 50
MAX_EPOCHS = 1000
PATIENCE = 3
SEED = 1111


class Correlation(TypedDict):
    """Correlations times 100 with the test scores; ``dev`` is Pearson's, by which training stopped."""

    spearman: float
    pearson: float
    dev: float
    examples: int


class RelatednessResult(TypedDict):
    """Correlations by task; ``average`` is the plain mean of Spearman's."""

    average: float
    tasks: dict[str, Correlation]


def evaluate_relatedness(encoder: Encoder, tasks: Sequence[RelatednessTask]) -> RelatednessResult:
    """Train a regression for each task on [|u - v|; u * v] of vectors that are computed once.

    The protocol is SentEval's, which is that of Tai et al. (2015): a linear layer gives a distribution
    over the levels 1 to 5, whose expectation is the prediction; its target puts a score's mass on the two
    levels next to it; the squared error is minimised by Adam, batch 64, and dev's Pearson, looked at every
    50 epochs, decides what is kept and when to stop. As in SentEval, a score of STS-B below 1 has a target
    of less mass than one, and training stops at the fourth look without a new best, wherever these were.
    The random numbers are SentEval's too.

    Args:
        encoder: Encoder to evaluate; it is frozen.
        tasks: At least one.
    """
    features = FrozenFeatures(
        encoder,
        (
            text
            for task in tasks
            for part in (task.train, task.dev, task.test)
            for pair in part.pairs
            for text in pair
        ),
    )
    results: dict[str, Correlation] = {}
    for task in tasks:
        results[task.name] = _score(task, features)
        found = results[task.name]
        log.info("%s: Spearman %.2f, Pearson %.2f", task.name, found["spearman"], found["pearson"])
    average = float(np.mean([result["spearman"] for result in results.values()]))
    return {"average": average, "tasks": results}


def _score(task: RelatednessTask, features: FrozenFeatures) -> Correlation:
    train, dev, test = (torch.from_numpy(features(part.pairs)) for part in (task.train, task.dev, task.test))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model = nn.Linear(train.shape[1], LEVELS)
    best, best_dev = _fit(model, train, level_targets(task.train.scores), dev, task.dev.scores)
    found = correlate(_predict(best, test), task.test.scores)
    return {
        "spearman": found["spearman"],
        "pearson": found["pearson"],
        "dev": 100 * best_dev,
        "examples": len(task.test.scores),
    }


def level_targets(scores: np.ndarray) -> Tensor:
    """Compute the mass of each score on the levels 1 to 5.

    A score s has the mass s - floor(s) on the level above it and the rest on floor(s); there is no level 0.

    Args:
        scores: (N,), in [0, 5].

    Returns:
        (N, 5), float32.
    """
    levels = np.arange(1, LEVELS + 1)
    return torch.from_numpy(np.maximum(0, 1 - np.abs(scores[:, None] - levels)).astype(np.float32))


def _fit(
    model: nn.Linear, inputs: Tensor, targets: Tensor, dev: Tensor, dev_scores: np.ndarray
) -> tuple[nn.Linear, float]:
    optimizer = torch.optim.Adam(model.parameters())
    shuffle = np.random.RandomState(SEED)
    best, best_dev, misses = copy.deepcopy(model), -1.0, 0
    for epoch in range(1, MAX_EPOCHS + EPOCHS_PER_CHECK + 1):  # SentEval's loop has one look more
        for rows in torch.from_numpy(shuffle.permutation(len(inputs))).split(BATCH_SIZE):
            loss = nn.functional.mse_loss(model(inputs[rows]).softmax(-1), targets[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch % EPOCHS_PER_CHECK:
            continue
        correlation = correlate(_predict(model, dev), dev_scores)["pearson"] / 100
        if correlation > best_dev:
            best, best_dev = copy.deepcopy(model), correlation
        elif misses == PATIENCE:
            break
        else:
            misses += 1
    return best, best_dev


def _predict(model: nn.Linear, inputs: Tensor) -> np.ndarray:
    with torch.no_grad():
        shares: np.ndarray = model(inputs).softmax(-1).numpy()
    return shares @ np.arange(1, LEVELS + 1)
