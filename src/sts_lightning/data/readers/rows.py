"""Rows of a query and texts that answer it, and texts with classes, in the files of this and other trainers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sts_lightning.data.readers.row_values import BadRows

Kind = Literal["scored", "rows", "classes"]
"""Two texts and a number; an anchor with positives and negatives; a text with its class."""


@dataclass(frozen=True)
class Layout:
    """What the columns of a file are.

    Attributes:
        kind: Kind of its rows.
        columns: Names: of the first text, the second and the score; of the anchor, the positives and any
            negatives; or of the text and the class.
        lists: Whether positives or negatives of a row may be lists of texts, or of messages.
        note: What was taken for what, for the log.
    """

    kind: Kind
    columns: tuple[str, ...]
    lists: bool = False
    note: str = ""


@dataclass(frozen=True)
class TextRow:
    """An anchor with one or more positives and any number of negatives, and its line in the file."""

    line: int
    anchor: str
    positives: list[str]
    negatives: list[str]


def recognise(path: Path, columns: Sequence[str] | None = None) -> Layout:
    """Recognise what the columns of a file are.

    Args:
        path: CSV, TSV, JSONL or Parquet file, perhaps compressed (``.gz``).
        columns: Names of the columns where the user gives them.

    Raises:
        DataError: The file cannot be read, or what its columns are cannot be told.
    """
    raise NotImplementedError


def read_rows(path: Path, layout: Layout, setting: str, bad: BadRows) -> Iterator[TextRow]:
    """Read the rows of a file.

    Args:
        path: The file.
        layout: Its layout, of the kind ``rows``.
        setting: What the user names the columns with, for errors.
        bad: Keeps the errors of rows, which are then left out.

    Raises:
        DataError: The file cannot be read or has no rows.
    """
    raise NotImplementedError


def read_labelled(path: Path, layout: Layout, setting: str, bad: BadRows) -> Iterator[tuple[int, str, str]]:
    """Read the line, the text and the class of each row of a file; see `read_rows`."""
    raise NotImplementedError
