"""NLI pairs of a file: premise, hypothesis and class."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sts_lightning.data.readers.row_values import sentence
from sts_lightning.data.readers.text_files import read_records
from sts_lightning.errors import DataError

COLUMNS = ("premise", "hypothesis", "label")
"""Usual names of the columns."""

CLASSES: tuple[str, ...] = ("contradiction", "neutral", "entailment")
"""Classes in the order of similarity, so that their indices 0, 1, 2 can be regressed (STS-Regression)."""


def read_nli_pairs(
    path: Path, columns: Sequence[str] = COLUMNS, classes: Sequence[str] = CLASSES
) -> list[tuple[str, str, int]]:
    """Read the premise, the hypothesis and the index of the class of each pair.

    Args:
        path: CSV, TSV or JSONL file.
        columns: Names of the columns of premise, hypothesis and label.
        classes: Names of the classes in lower case; a label is one of them in any case, or its index.

    Raises:
        DataError: The file is missing or malformed, or a label is neither.
    """
    return [
        (sentence(premise, path, line), sentence(hypothesis, path, line), _class(label, classes, path, line))
        for line, (premise, hypothesis, label) in read_records(path, list(columns), numbers=columns[2:])
    ]


def _class(text: str, classes: Sequence[str], path: Path, line: int) -> int:
    word = text.strip().lower()
    if word in classes:
        return classes.index(word)
    indices = [str(index) for index in range(len(classes))]
    if word in indices:
        return int(word)
    raise DataError(
        f"the label {text!r} is not {', '.join(classes)} (or {', '.join(indices)} in this order).", path, line
    )
