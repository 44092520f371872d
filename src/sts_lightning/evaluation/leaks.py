"""Leaks: training pairs that also occur in test sets, literally or nearly."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from sts_lightning.data.overlap import Equality, Pair, PairIndex, plain_words
from sts_lightning.data.readers.row_values import fold
from sts_lightning.data.table import Table

Kind = Equality | Literal["near"]
"""Kind of equality of a training pair and a test pair, the strongest first.

``exact``: both strings are equal but for white space; ``swapped``: the same in the other order;
``normalized``: letters and digits are equal but for case, in either order; ``near``: both sentences share
most of their character 4-grams, in either order.
"""

KINDS: tuple[Kind, ...] = (*get_args(Equality), "near")


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
    test_pair: Pair


Pairs = Sequence[Pair]


def find_leaks(train: Pairs, tests: Mapping[str, Iterable[Table]], near: float | None = 0.8) -> list[Leak]:
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
    unmatched: dict[str, list[int]] = {}
    pairs = {
        task: list(dict.fromkeys(pair for table in tables for pair in table.pairs))
        for task, tables in tests.items()
    }
    for task, members in pairs.items():
        index = PairIndex(members, get_args(Equality))
        unmatched[task] = []
        for row, pair in enumerate(train):
            match = index.find(*pair)
            if match is None:
                unmatched[task].append(row)
            else:
                leaks.append(Leak(row, task, *match))
    if near is not None:
        leaks += _near_leaks(train, pairs, unmatched, near)
    return sorted(leaks, key=lambda leak: (leak.row, leak.task))


def _near_leaks(
    train: Pairs, tests: Mapping[str, Pairs], unmatched: Mapping[str, Sequence[int]], near: float
) -> Iterator[Leak]:
    rows = {row for members in unmatched.values() for row in members}
    neighbours = _neighbours(
        {text for row in rows for text in train[row]},
        {text for members in tests.values() for pair in members for text in pair},
        near,
    )
    for task, members in tests.items():
        partners = defaultdict[str, list[tuple[str, Pair]]](list)
        for pair in members:
            partners[pair[0]].append((pair[1], pair))
            partners[pair[1]].append((pair[0], pair))
        for row in unmatched[task]:
            first, second = (neighbours[text] for text in train[row])
            # Sorted, so that every run takes the same match: the order of a set of strings is random.
            matches = (pair for text in sorted(first) for other, pair in partners[text] if other in second)
            if (match := next(matches, None)) is not None:
                yield Leak(row, task, "near", match)


def _neighbours(texts: Iterable[str], others: Iterable[str], near: float) -> dict[str, set[str]]:
    """For each text, find the others that share at least ``near`` of their 4-grams with it.

    Sets A and B of such texts share at least near |A| and near |B| elements. In any order of all elements,
    each set therefore has a shared one among its first |A| - ceil(near |A|) + 1 (prefix filtering, Bayardo et
    al. 2007). The rarest come first, since they have the fewest candidates.
    """
    grams = {text: _grams(text) for text in set(others)}
    counts = Counter(gram for members in grams.values() for gram in members)

    def prefix(members: frozenset[bytes]) -> list[bytes]:
        ordered = sorted(members, key=lambda gram: (counts[gram], gram))
        least_shared = math.ceil(near * len(members) - 1e-9)  # rounding must not raise it
        return ordered[: len(members) - least_shared + 1]

    index = defaultdict[bytes, list[str]](list)
    for text, members in grams.items():
        for gram in prefix(members):
            index[gram].append(text)
    neighbours: dict[str, set[str]] = {}
    for text in set(texts):
        members = grams.get(text) or _grams(text)
        candidates = {other for gram in prefix(members) for other in index.get(gram, ())}
        neighbours[text] = {
            other for other in candidates if len(members & grams[other]) >= near * len(members | grams[other])
        }
    return neighbours


def _grams(text: str) -> frozenset[bytes]:
    """Return the character 4-grams of the normalized words; the whole text if it is shorter."""
    plain = plain_words(text, " ") or fold(text)
    return frozenset(plain[start : start + 4].encode() for start in range(max(1, len(plain) - 3)))
