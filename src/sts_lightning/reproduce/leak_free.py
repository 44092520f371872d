"""Scores on the pairs of the seven test sets that occur in no published training set."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from sts_lightning.core.files import parse_json
from sts_lightning.evaluation.leaks import KINDS
from sts_lightning.evaluation.statistics import Predictions, correlate
from sts_lightning.runs.predictions import of_pairs

LEAK_FREE = ""
"""Kind of a test pair that occurs in no training set."""


@dataclass(frozen=True, eq=False)
class SetLeaks:
    """Pairs of a test set that occur in the training sets.

    Attributes:
        gold: Hash of the gold scores in their order, by which a test set is recognised; see `hash_scores`.
        kinds: Strongest `Kind` of equality of each test pair with a training pair, or `LEAK_FREE`, (N,).
    """

    gold: str
    kinds: np.ndarray


@dataclass(frozen=True)
class LeakedRows:
    """Test pairs that occur in training sets.

    Attributes:
        training: Name of the training sets.
        near: Least similarity of nearly equal pairs; None if these were not searched for.
        tests: Leaks of each test set, by name.
    """

    training: str
    near: float | None
    tests: Mapping[str, SetLeaks]


def hash_scores(gold: np.ndarray) -> str:
    """Return a hash of gold scores (N,) to four decimals in their order, the same for all float types."""
    return hashlib.sha256(np.rint(gold.astype(np.float64) * 1e4).astype("<i8").tobytes()).hexdigest()


PUBLISHED = "leaked_rows.json"
"""File of this package: the pairs of the seven test sets that occur in STS-B train or SICK-R train.

``python tools/leaked_rows.py`` writes it.
"""


@cache
def published_leaks() -> LeakedRows:
    """Return the pairs of the seven test sets that occur in STS-B train or SICK-R train."""
    return parse((files("sts_lightning.reproduce") / PUBLISHED).read_text(encoding="utf-8"))


def parse(text: str) -> LeakedRows:
    """Parse the text of a file such as `PUBLISHED`."""
    values = parse_json(text)
    tests = {}
    for name, test in values["tests"].items():
        kinds = np.full(test["pairs"], LEAK_FREE, dtype="<U10")  # as long as the longest kind
        for kind in KINDS:
            kinds[list(_numbers(test[kind]))] = kind
        tests[str(name)] = SetLeaks(test["gold"], kinds)
    return LeakedRows(values["training"], values["near"], tests)


def _numbers(text: str) -> Iterator[int]:
    """Yield the numbers of ranges such as ``0-3 7``."""
    for numbers in text.split():
        first, _, last = numbers.partition("-")
        yield from range(int(first), int(last or first) + 1)


def leak_free_average(predictions: Predictions, leaks: LeakedRows) -> float | None:
    """Return the mean over test sets of Spearman's correlation times 100 on their leak-free pairs.

    Nearly equal pairs are left out too. The leak-free pairs may be easier or harder than all: compare models
    on them, not the two scores of a model.

    Returns:
        The mean; None if these are other test sets, or the leak-free gold scores of a test set are all equal.
    """
    scores = []
    for task, (cosines, gold) in of_pairs(predictions).items():
        if task not in leaks.tests or leaks.tests[task].gold != hash_scores(gold):
            return None
        leak_free = leaks.tests[task].kinds == LEAK_FREE
        if len(np.unique(gold[leak_free])) < 2:
            return None
        scores.append(correlate(cosines[leak_free], gold[leak_free])["spearman"])
    return statistics.mean(scores)
