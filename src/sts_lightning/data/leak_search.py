"""Search for training pairs that also occur in test sets, literally or nearly."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from datasets import Dataset

from sts_lightning.data.overlap import pair_key, plain_words
from sts_lightning.data.pair_tables import pairs_of
from sts_lightning.data.readers.row_values import fold

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
