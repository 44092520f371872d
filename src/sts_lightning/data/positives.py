"""Texts that training data pair with an anchor, or put in its class; none of them is a negative of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from sts_lightning.data.overlap import plain_words
from sts_lightning.data.readers.row_values import fold
from sts_lightning.data.table import CLASS, NEGATIVES, Table

TokenIds = Callable[[Sequence[str]], Sequence[Sequence[int]]]
"""Map from texts to the token ids of each."""


@dataclass(frozen=True)
class KnownPositives:
    """What a table says of texts that meet in a batch.

    Attributes:
        spelling: The text that stands for each text whose token ids are those of an earlier one.
        partners: The texts with which each anchor that has several is paired, in either order.
        rows: Number of the anchor in each row that has one of these.
    """

    spelling: Mapping[str, str] = field(default_factory=dict)
    partners: Mapping[str, Set[str]] = field(default_factory=dict)
    rows: Mapping[int, int] = field(default_factory=dict)

    def further_ids(self, texts: Sequence[Sequence[Any]], ids: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return the numbers of further texts of a batch that are no negatives of each row's anchor.

        Args:
            texts: Anchors, positives[, hard negatives ...], (V, B); None where a row lacks one.
            ids: Their numbers, (V, B).

        Returns:
            (K, B), where K is the most that any row has; a row with fewer repeats its own positive.
        """
        if not (self.spelling or self.partners):
            return []
        number = dict(zip(chain(*texts), chain(*ids), strict=True))
        number.pop(None, None)
        spellings: dict[str, list[str]] = defaultdict(list)
        for text in self.spelling.keys() & number.keys():
            spellings[self.spelling[text]].append(text)
        present = number.keys() | spellings.keys()
        found: list[list[int]] = []
        for anchor, positive, *own in zip(texts[0], texts[1], ids[0], ids[1], strict=True):
            first = self.spelling.get(anchor, anchor)
            if first not in self.partners and not spellings:
                found.append([])
                continue
            alike = {first, self.spelling.get(positive, positive)} | self.partners.get(first, set()) & present
            known = chain(alike, *(spellings[text] for text in alike if text in spellings))
            found.append(sorted({number[text] for text in known if text in number}.difference(own)))
        return _filled(found, ids[1])


def _filled(found: Sequence[list[int]], own: Sequence[int]) -> list[list[int]]:
    """Return what was found for each of B rows as (K, B); where there is less, a number of its own fills."""
    most = max(map(len, found))
    filled = [row + [number] * (most - len(row)) for row, number in zip(found, own, strict=True)]
    return [list(numbers) for numbers in zip(*filled, strict=True)]


def known_positives(table: Table, columns: Sequence[str], token_ids: TokenIds | None) -> KnownPositives:
    """Read a table of anchors, positives[, hard negatives ...].

    Args:
        table: Training examples; the texts of their lists of negatives count, too.
        columns: Names of the columns, in this order, of which the table may lack those that are drawn.
        token_ids: Tokenisation that decides which spellings of a text are one text; None: no two are.
    """
    texts = [table[column] for column in columns if column in table.columns]
    if NEGATIVES in table.columns:
        texts.append(list(chain(*table[NEGATIVES])))
    spelling = {} if token_ids is None else _spellings(dict.fromkeys(chain(*texts)), token_ids)
    anchors, positives = ([spelling.get(text, text) for text in column] for column in texts[:2])
    as_anchor = set(anchors)
    # Nearly all anchors of a large corpus have a single partner, for which a set each would be too much.
    only: dict[str, str] = {}
    partners: dict[str, set[str]] = {}
    for text, partner in chain(zip(anchors, positives, strict=True), zip(positives, anchors, strict=True)):
        if text in as_anchor and (first := only.setdefault(text, partner)) != partner:
            partners.setdefault(text, {first}).add(partner)
    numbers = {anchor: number for number, anchor in enumerate(partners)}
    rows = {row: numbers[anchor] for row, anchor in enumerate(anchors) if anchor in numbers}
    return KnownPositives(spelling, partners, rows)


@dataclass(frozen=True)
class KnownClasses:
    """The classes of the texts of a table.

    Attributes:
        classes: Those of each text.
        rows: Number of the class of each row.
    """

    classes: Mapping[str, frozenset[str]]
    rows: Mapping[int, int]

    def ids(self, texts: Sequence[Sequence[str]]) -> list[list[int]]:
        """Return numbers of the texts of a batch, equal where the classes are.

        Args:
            texts: Anchors and positives, (2, B).

        Returns:
            (2 + K, B), as `KnownPositives.further_ids` continues them: a text may be in several classes, and
            what shares one with an anchor is no negative of it.
        """
        numbers: dict[frozenset[str], int] = {}
        of_texts = [[self.classes[text] for text in column] for column in texts]
        ids = [[numbers.setdefault(classes, len(numbers)) for classes in column] for column in of_texts]
        if all(len(classes) == 1 for classes in numbers):
            return ids
        shared = {
            classes: [number for other, number in numbers.items() if classes & other] for classes in numbers
        }
        found = [
            [n for n in shared[classes] if n not in own]
            for classes, *own in zip(of_texts[0], *ids, strict=True)
        ]
        return ids + _filled(found, ids[1])


def known_classes(table: Table, token_ids: TokenIds | None) -> KnownClasses:
    """Read a table of texts with classes; texts with the same token ids have the classes of each other.

    Args:
        table: Training examples.
        token_ids: See `known_positives`.
    """
    texts, names = table["sentence1"], table[CLASS]
    spelling = {} if token_ids is None else _spellings(dict.fromkeys(texts), token_ids)
    found: dict[str, set[str]] = defaultdict(set)
    for text, name in zip(texts, names, strict=True):
        found[spelling.get(text, text)].add(name)
    same: dict[frozenset[str], frozenset[str]] = {}  # one set for all texts of a class
    of_texts = {text: same.setdefault(key := frozenset(of_text), key) for text, of_text in found.items()}
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    classes = {text: of_texts[spelling.get(text, text)] for text in dict.fromkeys(texts)}
    return KnownClasses(classes, {row: numbers[name] for row, name in enumerate(names)})


def _spellings(texts: Iterable[str], token_ids: TokenIds) -> dict[str, str]:
    """Return the earlier text with the same token ids, for each text that has one.

    Only texts with the same letters and digits are tokenised.
    """
    first: dict[str, str] = {}
    alike: dict[str, list[str]] = {}
    for text in texts:
        key = plain_words(text, "") or fold(text)
        if (known := first.setdefault(key, text)) is not text:
            alike.setdefault(known, [known]).append(text)
    candidates = list(chain.from_iterable(alike.values()))
    by_ids: dict[tuple[int, ...], str] = {}
    found = zip(candidates, token_ids(candidates) if candidates else [], strict=True)
    same = {text: by_ids.setdefault(tuple(ids), text) for text, ids in found}
    return {text: known for text, known in same.items() if known is not text}
