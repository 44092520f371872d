"""NLI pairs of a file: premise, hypothesis and class."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from sts_lightning.core.errors import DataError
from sts_lightning.data.readers.row_values import BadRows, folded_sentence, sentence, without_point
from sts_lightning.data.readers.text_files import read_records

log = logging.getLogger(__name__)

COLUMNS = ("premise", "hypothesis", "label")
"""Usual names of the columns."""

CLASSES: tuple[str, ...] = ("contradiction", "neutral", "entailment")
"""Classes in the order of similarity, so that their indices 0, 1, 2 can be regressed (STS-Regression)."""


def read_nli_pairs(
    path: Path,
    columns: Sequence[str] = COLUMNS,
    classes: Sequence[str] = CLASSES,
    setting: str | None = None,
    folded: bool = True,
) -> list[tuple[str, str, int]]:
    """Read the premise, the hypothesis and the index of the class of each pair.

    Args:
        path: CSV, TSV, JSONL or Parquet file.
        columns: Names of the columns of premise, hypothesis and label.
        classes: Names of the classes in lower case; a label is one of them in any case, or its index where
            no name is a number.
        setting: What the user names the columns with, for errors.
        folded: Whether white space is folded, as in the published corpora; a user's own text stays as it is.

    Raises:
        DataError: The file is missing or malformed, or a label is neither.
    """
    numbers = any(name.isdecimal() for name in classes)
    known = {} if numbers else {str(index): index for index in range(len(classes))}
    text = folded_sentence if folded else sentence
    pairs, by_index, bad = [], False, BadRows()
    for line, (premise, hypothesis, label) in read_records(
        path, list(columns), columns[2:], setting, bad=bad
    ):
        with bad:
            word = label.strip().lower()
            if word not in classes:
                word = without_point(word)
            if word not in classes and word not in known:
                also = f" (or {', '.join(known)} in this order)" if known else ""
                raise DataError(f"the label {label!r} is not {', '.join(classes)}{also}.", path, line)
            by_index |= word in known
            index = known[word] if word in known else classes.index(word)
            pairs.append((text(premise, path, line), text(hypothesis, path, line), index))
    bad.check()
    if by_index:
        names = [f"{index} is {name}" for index, name in enumerate(classes)]
        indices = [str(index) for index in range(len(classes))]
        # No list of names says that 0 is the most similar, as in SNLI: the least similar name comes first.
        log.log(
            logging.INFO if folded else logging.WARNING,
            "%s%s: labels are numbers: %s (the least similar), %s (the most similar). A loss that compares "
            "classes, such as cosent, trains on this order. 'data.classes=[%s]' turns it round, "
            "'data.classes=[%s]' confirms it.",
            "" if folded else "WARNING: ",
            path,
            names[0],
            ", ".join(names[1:]),
            ",".join(reversed(indices)),
            ",".join(indices),
        )
    return pairs
