"""Numbers of the test pairs that occur in training sets, kept without any sentence."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from sts_lightning.data.leak_search import KINDS
from sts_lightning.strict_json import parse_json

CLEAN = ""
"""Kind of a test pair that occurs in no training set."""

PUBLISHED = "leaked_rows.json"
"""File of this package: the pairs of the seven test sets that occur in STS-B train or SICK-R train.

``python tools/leaked_rows.py`` writes it.
"""


@dataclass(frozen=True, eq=False)
class SetLeaks:
    """Pairs of one test set that occur in the training sets.

    Attributes:
        gold: Hash of the gold scores in their order, by which a test set is recognised; see `hash_scores`.
        kinds: Strongest kind of equality of each test pair with a training pair (see `leak_search.Kind`),
            `CLEAN` for a pair that occurs in none, (N,).
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

    def fits(self, golds: Mapping[str, np.ndarray]) -> bool:
        """Return whether these are the test sets, or some of them, by their gold scores."""
        return all(
            name in self.tests and self.tests[name].gold == hash_scores(gold) for name, gold in golds.items()
        )


def hash_scores(gold: np.ndarray) -> str:
    """Return a hash of gold scores (N,) to four decimals in their order, the same for all float types."""
    return hashlib.sha256(np.rint(gold.astype(np.float64) * 1e4).astype("<i8").tobytes()).hexdigest()


@cache
def published_leaks() -> LeakedRows:
    """Return the pairs of the seven test sets that occur in STS-B train or SICK-R train."""
    return parse((files("sts_lightning.data") / PUBLISHED).read_text(encoding="utf-8"))


def parse(text: str) -> LeakedRows:
    """Read the text of such a file."""
    values = parse_json(text)
    tests = {}
    for name, test in values["tests"].items():
        kinds = np.full(test["pairs"], CLEAN, dtype="<U10")
        for kind in KINDS:
            kinds[list(_numbers(test[kind]))] = kind
        tests[str(name)] = SetLeaks(test["gold"], kinds)
    return LeakedRows(values["training"], values["near"], tests)


def _numbers(text: str) -> Iterable[int]:
    for part in text.split():
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)
