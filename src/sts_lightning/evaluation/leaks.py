"""Search for training pairs that also occur in test sets, literally or nearly."""

from __future__ import annotations

import hashlib
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, get_args

import numpy as np
from datasets import Dataset

from sts_lightning.core.json_files import parse_json
from sts_lightning.data.overlap import pair_key, plain_words
from sts_lightning.data.readers.row_values import fold
from sts_lightning.data.tables import pairs_of
from sts_lightning.evaluation.statistics import Predictions, correlate

Kind = Literal["exact", "swapped", "normalized", "near"]
"""Kind of equality of a training pair and a test pair, the strongest first.

``exact``: both strings are equal but for white space; ``swapped``: the same in the other order;
``normalized``: letters and digits are equal but for case, in either order; ``near``: both sentences share
most of their character 4-grams, in either order.
"""

KINDS: tuple[Kind, ...] = get_args(Kind)

GRAM = 4
"""Characters of an n-gram."""


@dataclass(frozen=True)
class Leak:
    """A training pair and a test pair that it equals.

    Attributes:
        row: Row of the training pair, from 0.
        task: Name of the test set.
        kind: Kind of equality.
        test_pair: The test pair.
    """

    row: int
    task: str
    kind: Kind
    test_pair: tuple[str, str]


Pairs = Sequence[tuple[str, str]]


def find_leaks(train: Pairs, tests: Mapping[str, Iterable[Dataset]], near: float | None = 0.8) -> list[Leak]:
    """Find the training pairs that occur in a test set, once for each set, with their strongest kind.

    Args:
        train: Training pairs.
        tests: Tables of each test set, by name.
        near: Least Jaccard similarity of the character 4-grams of both sentences for ``near``, in (0, 1];
            None to skip that kind.

    Raises:
        ValueError: ``near`` is out of range.
    """
    if near is not None and not 0 < near <= 1:
        raise ValueError(f"near must lie in (0, 1], got {near}.")
    leaks: list[Leak] = []
    open_rows: dict[str, list[int]] = {}
    pairs = {
        task: list(dict.fromkeys(pair for table in tables for pair in pairs_of(table)))
        for task, tables in tests.items()
    }
    for task, members in pairs.items():
        same = {(fold(first), fold(second)): (first, second) for first, second in members}
        alike = {pair_key(*pair, "normalized"): pair for pair in members}
        open_rows[task] = []
        for row, (first, second) in enumerate(train):
            kinds: list[tuple[Kind, tuple[str, str] | None]] = [
                ("exact", same.get((fold(first), fold(second)))),
                ("swapped", same.get((fold(second), fold(first)))),
                ("normalized", alike.get(pair_key(first, second, "normalized"))),
            ]
            found = next(((kind, pair) for kind, pair in kinds if pair is not None), None)
            if found is None:
                open_rows[task].append(row)
            else:
                leaks.append(Leak(row, task, *found))
    if near is not None:
        leaks += _near_leaks(train, pairs, open_rows, near)
    return sorted(leaks, key=lambda leak: (leak.row, leak.task))


def _near_leaks(
    train: Pairs, tests: Mapping[str, Pairs], open_rows: Mapping[str, Sequence[int]], near: float
) -> Iterator[Leak]:
    rows = sorted({row for members in open_rows.values() for row in members})
    neighbours = _neighbours(
        {text for row in rows for text in train[row]},
        {text for members in tests.values() for pair in members for text in pair},
        near,
    )
    for task, members in tests.items():
        partners: dict[str, list[tuple[str, tuple[str, str]]]] = {}
        for pair in members:
            partners.setdefault(pair[0], []).append((pair[1], pair))
            partners.setdefault(pair[1], []).append((pair[0], pair))
        for row in open_rows[task]:
            first, second = (neighbours[text] for text in train[row])
            matches = (
                pair for text in sorted(first) for other, pair in partners.get(text, []) if other in second
            )
            match = next(matches, None)
            if match is not None:
                yield Leak(row, task, "near", match)


def _neighbours(texts: Iterable[str], others: Iterable[str], near: float) -> dict[str, set[str]]:
    """For each text, find the others that share at least ``near`` of their 4-grams with it.

    Sets A and B of such texts share at least near |A| and near |B| elements, so each has one of these among
    its |A| - ceil(near |A|) + 1 rarest, in any one order of all (prefix filtering, Bayardo et al. 2007).
    """
    grams = {text: _grams(text) for text in set(others)}
    counts = Counter(gram for own in grams.values() for gram in own)

    def rarest(own: frozenset[bytes]) -> list[bytes]:
        ordered = sorted(own, key=lambda gram: (counts[gram], gram))
        return ordered[: len(own) - math.ceil(near * len(own) - 1e-9) + 1]

    index = defaultdict[bytes, list[str]](list)
    for text, own in grams.items():
        for gram in rarest(own):
            index[gram].append(text)
    found: dict[str, set[str]] = {}
    for text in set(texts):
        own = grams.get(text) or _grams(text)
        candidates = {other for gram in rarest(own) for other in index.get(gram, ())}
        found[text] = {
            other for other in candidates if len(own & grams[other]) >= near * len(own | grams[other])
        }
    return found


def _grams(text: str) -> frozenset[bytes]:
    """Return the character 4-grams of the normalized words; the whole text if it is shorter."""
    plain = plain_words(text, " ") or fold(text)
    count = max(1, len(plain) - GRAM + 1)
    return frozenset(plain[start : start + GRAM].encode() for start in range(count))


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
    return parse((files("sts_lightning.evaluation") / PUBLISHED).read_text(encoding="utf-8"))


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


def clean_average(predictions: Predictions, leaks: LeakedRows) -> float | None:
    """Return the mean over test sets of Spearman's correlation times 100 on their clean pairs.

    Pairs of every kind are left out, nearly equal ones too. The clean pairs are other pairs than all, easier
    or harder: compare models on them, not the two scores of a model.

    Args:
        predictions: Cosines and gold scores of each test set.
        leaks: Test pairs that occur in training sets.

    Returns:
        The mean; None if these are other test sets, or the clean gold scores of one are all equal.
    """
    if not leaks.fits({task: gold for task, (_, gold) in predictions.items()}):
        return None
    scores = []
    for task, (cosines, gold) in predictions.items():
        clean = leaks.tests[task].kinds == CLEAN
        if len(np.unique(gold[clean])) < 2:
            return None
        scores.append(correlate(cosines[clean], gold[clean])["spearman"])
    return statistics.mean(scores)
