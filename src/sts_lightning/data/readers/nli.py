"""NLI pairs of a file: premise, hypothesis and class."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from sts_lightning.core.errors import DataError
from sts_lightning.data.readers.row_values import folded_sentence, sentence, without_point
from sts_lightning.data.readers.tables import Source, read_rows

log = logging.getLogger(__name__)

COLUMNS = ("premise", "hypothesis", "label")
"""Usual names of the columns."""

CLASSES: tuple[str, ...] = ("contradiction", "neutral", "entailment")
"""Classes in the order of similarity, so that their indices 0, 1, 2 can be regressed (STS-Regression)."""


def read_nli_pairs(
    source: Source,
    columns: Sequence[str] = COLUMNS,
    classes: Sequence[str] = CLASSES,
    setting: str | None = None,
    folded: bool = True,
) -> list[tuple[str, str, int]]:
    """Read the premise, the hypothesis and the index of the class of each pair.

    Args:
        source: CSV, TSV, JSONL or Parquet file.
        columns: Names of the columns of premise, hypothesis and label.
        classes: Names of the classes in lower case; a label is one of them in any case, or its index where
            no name is a number.
        setting: What the user names the columns with, for errors.
        folded: Whether white space is folded, as in the published corpora; a user's own text stays as it is.

    Raises:
        DataError: The file is missing or malformed, or a label is neither.
    """
    named = {name: index for index, name in enumerate(classes)}
    indices = {str(index): index for index in named.values()}
    known = {} if any(name.isdecimal() for name in classes) else indices
    text = folded_sentence if folded else sentence
    by_index = False

    def parse(values: Sequence[str]) -> tuple[str, str, int]:
        nonlocal by_index
        premise, hypothesis, label = values
        word = label.strip().lower()
        if word not in named:
            word = without_point(word)
        if word not in named and word not in known:
            also = f" (or {', '.join(known)} in this order)" if known else ""
            raise DataError(f"the label {label!r} is not {', '.join(classes)}{also}.")
        by_index |= word in known
        return text(premise), text(hypothesis), known[word] if word in known else named[word]

    pairs = [pair for _, pair in read_rows(source, columns, parse, numbers=columns[2:], setting=setting)]
    if by_index:
        names = [f"{index} is {name}" for index, name in enumerate(classes)]
        # No list of names says that 0 is the most similar, as in SNLI: the least similar name comes first.
        log.log(
            logging.INFO if folded else logging.WARNING,
            "%s%s: labels are numbers: %s (the least similar), %s (the most similar). A loss that compares "
            "classes, such as cosent, trains on this order. 'data.classes=[%s]' turns it round, "
            "'data.classes=[%s]' confirms it.",
            "" if folded else "WARNING: ",
            source,
            names[0],
            ", ".join(names[1:]),
            ",".join(reversed(indices)),
            ",".join(indices),
        )
    return pairs
