"""Filter for training pairs that also occur in a test set."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
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

Key = frozenset[str]


def pair_key(sentence1: str, sentence2: str, how: OverlapFilter) -> Key:
    """Return a key that is the same for pairs that count as equal, in either order."""
    if how == "normalized":
        return frozenset(plain_words(text, "") or fold(text) for text in (sentence1, sentence2))
    return frozenset((fold(sentence1), fold(sentence2)))


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


def not_in(tests: Iterable[Table], how: OverlapFilter) -> Callable[[str, str], bool]:
    """Return a predicate that holds for pairs that occur in none of the test tables."""
    if how == "none":
        return lambda sentence1, sentence2: True
    seen = {pair_key(sentence1, sentence2, how) for table in tests for sentence1, sentence2 in table.pairs}
    return lambda sentence1, sentence2: pair_key(sentence1, sentence2, how) not in seen


def in_tests(train: Table, tests: Iterable[Table], how: OverlapFilter) -> np.ndarray:
    """Return the mask (N,) of the training examples with a pair that occurs in a test table.

    Args:
        train: Examples; each sentence from the second on, or of a list, is a pair with the first.
        tests: Test tables.
        how: Criterion of the filter.
    """
    keep = not_in(tests, how)
    first, *others = (train[name] for name in train.columns if name.startswith("sentence"))
    found = np.zeros(len(train), dtype=bool)
    for other in others:
        found |= np.array([not keep(*pair) for pair in zip(first, other, strict=True)], dtype=bool)
    if NEGATIVES in train.columns:
        lists = zip(first, train[NEGATIVES], strict=True)
        found |= np.array(
            [not all(keep(text, other) for other in listed) for text, listed in lists], dtype=bool
        )
    return found


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
    """Warn of training examples with a pair of `in_tests` that also occurs in other pairs, in any spelling.

    Args:
        train: Training examples; the sources with such pairs are named if there are several.
        tables: The other pairs.
        where: Name of the other pairs.
    """
    common = in_tests(train, tables, "normalized")
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
