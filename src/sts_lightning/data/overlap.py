"""Training pairs that also occur in other pairs, such as a test set: their index, the filter, the warning."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Literal, get_args

import numpy as np

from sts_lightning.data.readers.row_values import fold
from sts_lightning.data.table import NEGATIVES, Table

log = logging.getLogger(__name__)

OverlapFilter = Literal["none", "exact", "normalized"]
"""Criterion by which a training pair equals a test pair, in either order of its sentences.

The pairs of a triplet are those of its anchor: with the positive, and with each hard negative.
``none`` keeps all pairs; ``exact`` compares the strings (the papers' filter, Pcc-tuning App. B), whatever
their white space, which only published corpora have folded;
``normalized`` compares letters, their marks, and digits only, without their case and Unicode's variants.
"""

_ASCII_WORD = re.compile(r"[a-z0-9]+")

Pair = tuple[str, str]

Equality = Literal["exact", "swapped", "normalized"]
"""Kind in which two pairs are equal: ``exact`` and ``normalized`` as in `OverlapFilter`, but that ``exact``
is in the same order of the sentences, and ``swapped`` in the other one."""


def pair_key(sentence1: str, sentence2: str, how: OverlapFilter) -> frozenset[str]:
    """Return a key that is the same for pairs that count as equal, in either order."""
    if how == "normalized":
        return frozenset(map(spelled_alike, (sentence1, sentence2)))
    return frozenset((fold(sentence1), fold(sentence2)))


def spelled_alike(text: str) -> str:
    """Return what texts have in common that differ in case, punctuation and white space alone."""
    return plain_words(text, "") or fold(text)


def plain_words(text: str, separator: str) -> str:
    """Return the words of a text, in lower case and in Unicode's form NFKC, without punctuation and symbols.

    Args:
        text: Text in any script. Marks, such as vowel signs of Devanagari, belong to their words.
        separator: What stands between words.
    """
    if text.isascii():
        return separator.join(_ASCII_WORD.findall(text.lower()))
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    kept = (c if c.isalnum() or unicodedata.category(c)[0] == "M" else " " for c in folded)
    return separator.join("".join(kept).split())


class PairIndex:
    """Pairs of sentences, among which those that equal another pair are found.

    Args:
        pairs: The pairs. Of several that are equal, the last one is found.
        kinds: Kinds of equality, the strongest first.
    """

    def __init__(self, pairs: Iterable[Pair], kinds: Sequence[Equality]) -> None:
        self._pairs: dict[Equality, dict[Hashable, Pair]] = {kind: {} for kind in kinds}
        for first, second in pairs:
            for kind, by_key in self._pairs.items():
                stored = (second, first) if kind == "swapped" else (first, second)
                by_key[_key(*stored, kind)] = (first, second)

    def find(self, first: str, second: str) -> tuple[Equality, Pair] | None:
        """Return the strongest kind in which a pair equals one of these, and that one; else None."""
        for kind, by_key in self._pairs.items():
            if (pair := by_key.get(_key(first, second, kind))) is not None:
                return kind, pair
        return None

    def rows_in(self, table: Table) -> np.ndarray:
        """Return the mask (N,) of the examples of a table with a pair that equals one of these.

        Each sentence of an example from the second on, or of a list, is a pair with the first.
        """
        views = [table[name] for name in table.columns if name.startswith("sentence")]
        lists = table[NEGATIVES] if NEGATIVES in table.columns else [()] * len(table)
        found = [
            any(self.find(first, other) for other in (*others, *listed))
            for first, *others, listed in zip(*views, lists, strict=True)
        ]
        return np.array(found, dtype=bool)


def _key(first: str, second: str, kind: Equality) -> Hashable:
    return pair_key(first, second, kind) if kind == "normalized" else (fold(first), fold(second))


def pairs_in_tables(tables: Iterable[Table], how: OverlapFilter) -> PairIndex:
    """Return an index of the pairs of tables that finds what a filter drops: nothing with ``none``."""
    kinds: dict[OverlapFilter, tuple[Equality, ...]]
    kinds = {"none": (), "exact": ("exact", "swapped"), "normalized": ("normalized",)}
    return PairIndex((pair for table in tables for pair in table.pairs), kinds[how])


def why_dropped(how: OverlapFilter) -> str:
    """Return the reason under which the pairs that a filter drops are counted."""
    return f"in a test set ({how})"


def filter_of(dropped: Mapping[str, int]) -> tuple[OverlapFilter, int] | None:
    """Return the filter that counted rows went through, and the number of rows that it dropped.

    Args:
        dropped: Rows dropped, by reason.
    """
    for how in get_args(OverlapFilter):
        if why_dropped(how) in dropped:
            return how, dropped[why_dropped(how)]
    return None


def report_common(train: Table, tables: Iterable[Table], where: str) -> None:
    """Warn of training examples with a pair that also occurs in other pairs, in any spelling.

    Args:
        train: Training examples; the sources with such pairs are named if there are several.
        tables: The other pairs.
        where: Name of the other pairs.
    """
    common = pairs_in_tables(tables, "normalized").rows_in(train)
    if not common.any():
        return
    found = np.bincount(train.source[common], minlength=len(train.sources)).tolist()
    per_source = [
        f"{source.source}: {count:,}" for source, count in zip(train.sources, found, strict=True) if count
    ]
    log.warning(
        "WARNING: %s of %s training pairs also occur in the %s%s, in either order and whatever their case "
        "and punctuation; the scores on these are too high.",
        f"{common.sum():,}",
        f"{len(train):,}",
        where,
        f" ({'; '.join(per_source)})" if len(train.sources) > 1 else "",
    )
