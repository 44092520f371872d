"""Tables of sentences: `datasets.Dataset` with the columns sentence1, sentence2[, ...][, label]."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset, DatasetInfo

from sts_lightning.core.errors import DataError, counted

log = logging.getLogger(__name__)

SCORE_RANGE = (0.0, 5.0)
"""Scale of all scores, that of SemEval's STS tasks."""


@dataclass
class SourceCount:
    """Number of rows read from a source and dropped, by reason.

    Attributes:
        source: Name of the source.
        read: Rows read.
        dropped: Rows dropped, by reason.
        weight: Share of the remaining rows that an epoch has: 2 for each row twice, 0.5 for half of them.
        several_scores: Number of pairs that were read with more than one score.
        lines: Number of lines of the remaining rows, of each of which an epoch has one row; None: each row is
            one.
    """

    source: str
    read: int
    dropped: dict[str, int] = field(default_factory=dict)
    weight: float = 1.0
    several_scores: int = 0
    lines: int | None = None

    @property
    def kept(self) -> int:
        """Rows that remain."""
        return self.read - sum(self.dropped.values())

    @property
    def drawn(self) -> int:
        """Rows in an epoch, at least one where there are any."""
        whole = self.kept if self.lines is None else self.lines
        return max(min(whole, 1), round(whole * self.weight))

    def report(self) -> None:
        """Log the rows read, dropped (with reasons) and kept."""
        reasons = "".join(f", {count:,} dropped: {why}" for why, count in self.dropped.items() if count)
        share = "" if self.weight == 1 else f", weight {self.weight:g}: {self.drawn:,} rows in an epoch"
        several = (
            f", {counted(self.several_scores, 'pair')} with several scores" if self.several_scores else ""
        )
        log.info(
            "%s: %s rows read%s, %s kept%s%s",
            self.source,
            f"{self.read:,}",
            reasons,
            f"{self.kept:,}",
            share,
            several,
        )


LABELLED = ("sentence1", "sentence2", "label")
"""Columns of pairs with a score or a class."""


PART = "part"
"""Column of a table of dev pairs with the name of the part that a pair belongs to."""

NEGATIVES, LINE, CLASS = "negatives", "line", "class"
"""Columns of training rows: the list from which hard negatives are drawn, the number of the line, of which
rows with the same are the positives of one, and the class of a text.
"""


def sentence_columns(count: int) -> tuple[str, ...]:
    """Return the names of the first sentence columns."""
    return tuple(f"sentence{number}" for number in range(1, count + 1))


def make_table(columns: Mapping[str, Sequence[Any]], description: str = "") -> Dataset:
    """Build a table from named columns of equal length."""
    values = {name: list(column) for name, column in columns.items()}
    return Dataset.from_dict(values, info=DatasetInfo(description=description))


def table_of_rows(names: Sequence[str], rows: Sequence[Sequence[Any]], description: str = "") -> Dataset:
    """Build a table from rows with a value for each name."""
    columns = zip(*rows, strict=True) if rows else ([] for _ in names)
    return make_table(dict(zip(names, columns, strict=True)), description)


def values_of(table: Dataset, name: str) -> list[Any]:
    """Return a column as a list; iterating over ``table[name]`` decodes row by row, ten times as slow."""
    values: list[Any] = table[name][:]
    return values


def pairs_of(table: Dataset) -> list[tuple[str, str]]:
    """Return the sentences of each pair."""
    return list(zip(values_of(table, "sentence1"), values_of(table, "sentence2"), strict=True))


def identical_pairs(table: Dataset) -> np.ndarray:
    """Return the rows whose two sentences are the same, as a mask (N,)."""
    return np.array([first == second for first, second in pairs_of(table)], dtype=bool)


def hash_tables(tables: Iterable[Dataset]) -> str:
    """Return a hash of the columns and values of tables, in order."""
    digest = hashlib.sha256()
    for table in tables:
        for name in table.column_names:
            digest.update(repr((name, values_of(table, name))).encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


def hash_pairs(tables: Iterable[Dataset]) -> str:
    """Return a hash of scored pairs: their sentences, and the order of their scores.

    The scale of the scores is left out: training maps those of a user to [0, 5], and `eval.py` does not.
    """
    digest = hashlib.sha256()
    for table in tables:
        order = np.unique(gold_of([table]), return_inverse=True)[1].tolist()
        texts = [values_of(table, name) for name in table.column_names if name != "label"]
        digest.update(repr((*texts, order)).encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


def gold_of(tables: Iterable[Dataset]) -> np.ndarray:
    """Return the scores of tables, one after another, as float64."""
    return np.concatenate([np.asarray(values_of(table, "label"), dtype=np.float64) for table in tables])


def parts_of(table: Dataset) -> dict[str, slice]:
    """Return the rows of each part of a table of dev pairs; none for dev pairs of one kind."""
    if PART not in table.column_names:
        return {}
    names = np.asarray(values_of(table, PART))
    starts = np.flatnonzero(np.concatenate([[True], names[1:] != names[:-1]])).tolist()
    ends = [*starts[1:], len(names)]
    return {str(names[start]): slice(start, end) for start, end in zip(starts, ends, strict=True)}


def starts_of_lines(table: Dataset) -> list[int]:
    """Return the first row of each line, and the end; none where each row is a line."""
    if LINE not in table.column_names:
        return []
    lines = np.asarray(values_of(table, LINE))
    return [0, *(np.flatnonzero(lines[1:] != lines[:-1]) + 1).tolist(), len(lines)]


def select_rows(table: Dataset, keep: np.ndarray, counts: Sequence[SourceCount], why: str) -> Dataset:
    """Return the rows of a mask, and count those dropped for each source.

    Args:
        table: Rows of all sources, one source after another.
        keep: Mask of the rows to keep, (N,).
        counts: Counts of the sources in this order; they are updated.
        why: Reason of dropping.
    """
    ends = np.cumsum([count.kept for count in counts])
    for count, part in zip(counts, np.split(keep, ends[:-1]), strict=True):
        count.dropped[why] = int((~part).sum())
    return table.select(np.flatnonzero(keep))


def check_limit(limit: int | None) -> None:
    """Check that a limit leaves rows to train on.

    Raises:
        ValueError: The limit is less than 2.
    """
    if limit is not None and limit < 2:
        raise ValueError(f"limit must be at least 2, got {limit}.")


def sample_rows(table: Dataset, limit: int | None, counts: Sequence[SourceCount]) -> Dataset:
    """Return a fixed random sample of at most ``limit`` rows; see `select_rows`."""
    keep = np.ones(len(table), dtype=bool)
    if limit is not None:
        keep[np.random.default_rng(0).permutation(len(table))[limit:]] = False
    return select_rows(table, keep, counts, "data.limit")


def require_varied_scores(table: Dataset, path: Path | str) -> None:
    """Reject scored pairs on which correlations are undefined.

    Raises:
        DataError: There are fewer than two rows, or all scores are equal.
    """
    if len(set(values_of(table, "label"))) < 2:
        pairs = counted(len(table), "scored pair")
        raise DataError(f"{pairs} without two different scores, which a correlation needs.", path)
