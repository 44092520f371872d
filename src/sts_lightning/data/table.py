"""Tables in memory: columns sentence1[, sentence2, ...][, label], and the source of each row."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, overload

import numpy as np

from sts_lightning.core.choices import TextFound
from sts_lightning.core.errors import DataError, counted
from sts_lightning.data.counts import reasons_of

log = logging.getLogger(__name__)

SCORE_RANGE = (0.0, 5.0)
"""Scale of all scores, that of SemEval's STS tasks."""


@dataclass(frozen=True)
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
    def units(self) -> int:
        """Lines that remain, or rows where each is one: what an epoch counts."""
        return self.kept if self.lines is None else self.lines

    @property
    def drawn(self) -> int:
        """Rows in an epoch, at least one where there are any."""
        return max(min(self.units, 1), round(self.units * self.weight))

    def report(self) -> None:
        """Log the rows read, dropped (with reasons) and kept."""
        numbers = [f"{self.read:,} rows read", *reasons_of(self.dropped), f"{self.kept:,} kept"]
        if self.weight != 1:
            numbers.append(f"weight {self.weight:g}: {self.drawn:,} rows in an epoch")
        if self.several_scores:
            numbers.append(f"{counted(self.several_scores, 'pair')} with several scores")
        log.info("%s: %s", self.source, ", ".join(numbers))


LABELLED = ("sentence1", "sentence2", "label")
"""Columns of pairs with a score or a class."""


PART = "part"
"""Column of joint training data with the name of the data set that a row is from."""

NEGATIVES, LINE, CLASS = "negatives", "line", "class"
"""Columns of training rows: the list from which hard negatives are drawn, the number of the line, of which
rows with the same are the positives of one, and the class of a text.
"""


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of one or several sources.

    ``table[NAME]`` is a column, ``table[5]`` a row and ``table[mask]`` or ``table[numbers]`` a table.

    Attributes:
        columns: Values of each column, of equal length. Tables share them: do not change them.
        sources: Rows read from each source, and those dropped since.
        source: Number of the source of each row, (N,); by default the first.
        text: How the text of SentEval's files was read; None of other data.
    """

    columns: Mapping[str, Sequence[Any]]
    sources: Sequence[SourceCount] = ()
    source: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    text: TextFound | None = None

    def __post_init__(self) -> None:
        if len(self.source) != len(self):
            object.__setattr__(self, "source", np.zeros(len(self), np.int32))

    @classmethod
    def of_rows(cls, names: Sequence[str], rows: Sequence[Sequence[Any]], source: str | None = None) -> Table:
        """Return a table of rows with a value for each name, read from a source if one is named."""
        columns = map(list, zip(*rows, strict=True)) if rows else ([] for _ in names)
        return cls(dict(zip(names, columns, strict=True))).read_from(source)

    def read_from(self, source: str | None) -> Table:
        """Return the same rows, with the count of this source if it has a name."""
        return self if source is None else replace(self, sources=[SourceCount(source, len(self))])

    def weighted(self, weight: float) -> Table:
        """Return the same rows, of which an epoch has this share."""
        return replace(self, sources=[replace(source, weight=weight) for source in self.sources])

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @overload
    def __getitem__(self, chosen: str) -> list[Any]: ...
    @overload
    def __getitem__(self, chosen: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, chosen: np.ndarray | slice) -> Table: ...
    def __getitem__(self, chosen: Any) -> Any:
        if isinstance(chosen, str):
            return self.columns[chosen]
        if isinstance(chosen, int):
            return {name: column[chosen] for name, column in self.columns.items()}
        rows = np.arange(len(self))[chosen]
        numbers = rows.tolist()
        columns = {name: [column[row] for row in numbers] for name, column in self.columns.items()}
        return replace(self, columns=columns, source=self.source[rows])

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[row] for row in range(len(self)))

    def __getitems__(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """Return the examples of a batch; `DataLoader` asks for them so."""
        return [self[row] for row in rows]

    def drop(self, rows: np.ndarray, why: str) -> Table:
        """Return the table without the rows of a mask (N,), with those of each source counted as dropped.

        Args:
            rows: Mask of the rows to drop.
            why: Reason, under which they are counted.
        """
        lost = np.bincount(self.source[rows], minlength=len(self.sources)).tolist()
        sources = [
            replace(source, dropped={**source.dropped, why: count})
            for source, count in zip(self.sources, lost, strict=True)
        ]
        return replace(self[~rows], sources=sources)

    def sample(self, limit: int | None) -> Table:
        """Return a fixed random sample of at most ``limit`` rows, in order."""
        left_out = np.zeros(len(self), dtype=bool)
        if limit is not None:
            left_out[np.random.default_rng(0).permutation(len(self))[limit:]] = True
        return self.drop(left_out, "data.limit")

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The first two sentences of each row."""
        return list(zip(self["sentence1"], self["sentence2"], strict=True))


def concatenate(tables: Sequence[Table]) -> Table:
    """Return the rows of tables with the same columns, one after another."""
    first, *others = tables
    if not others:
        return first
    columns = {name: [value for table in tables for value in table[name]] for name in first.columns}
    starts = np.cumsum([0, *(len(table.sources) for table in tables)])
    source = [table.source + start for table, start in zip(tables, starts.tolist(), strict=False)]
    sources = [source for table in tables for source in table.sources]
    return Table(columns, sources, np.concatenate(source), first.text)


SHOWN = 3
"""Names that a message lists before it counts the rest."""


def summary(names: Sequence[str], mark: str = ", ") -> str:
    """Join names, all but the first few of which are only counted."""
    more = len(names) - SHOWN
    return mark.join(names if more <= 1 else [*names[:SHOWN], f"{more:,} more"])


def sentence_columns(count: int) -> tuple[str, ...]:
    """Return the names of the first sentence columns."""
    return tuple(f"sentence{number}" for number in range(1, count + 1))


def identical_pairs(table: Table) -> np.ndarray:
    """Return the rows whose two sentences are the same, as a mask (N,)."""
    return np.array([first == second for first, second in table.pairs], dtype=bool)


def hash_tables(tables: Iterable[Table]) -> str:
    """Return a hash of the columns and values of tables, in order."""
    digest = hashlib.sha256()
    for table in tables:
        for column in table.columns.items():
            digest.update(repr(column).encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


def hash_pairs(tables: Iterable[Table]) -> str:
    """Return a hash of scored pairs: their sentences, and the order of their scores.

    The scale of the scores is left out: training maps those of a user to [0, 5], and `eval.py` does not.
    """
    digest = hashlib.sha256()
    for table in tables:
        order = np.unique(gold_of([table]), return_inverse=True)[1].tolist()
        texts = [column for name, column in table.columns.items() if name != "label"]
        digest.update(repr((*texts, order)).encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


def gold_of(tables: Iterable[Table]) -> np.ndarray:
    """Return the scores of tables, one after another, as float64."""
    return np.concatenate([np.asarray(table["label"], dtype=np.float64) for table in tables])


def starts_of_lines(table: Table) -> list[int]:
    """Return the first row of each line, and the end; none where each row is a line."""
    if LINE not in table.columns:
        return []
    lines = np.asarray(table[LINE])
    return [0, *(np.flatnonzero(lines[1:] != lines[:-1]) + 1).tolist(), len(lines)]


def sources_of(table: Table) -> Sequence[SourceCount]:
    """Return the sources of a table with the number of their lines, where a line has several rows."""
    if LINE not in table.columns:
        return table.sources
    lines = np.bincount(table.source[starts_of_lines(table)[:-1]], minlength=len(table.sources))
    return [replace(source, lines=n) for source, n in zip(table.sources, lines.tolist(), strict=True)]


def check_limit(limit: int | None) -> None:
    """Check that a limit leaves rows to train on.

    Raises:
        ValueError: The limit is less than 2.
    """
    if limit is not None and limit < 2:
        raise ValueError(f"limit must be at least 2, got {limit}.")


def require_varied_scores(table: Table, path: Path | str) -> None:
    """Reject scored pairs on which correlations are undefined.

    Raises:
        DataError: There are fewer than two rows, or all scores are equal.
    """
    if len(set(table["label"])) < 2:
        pairs = counted(len(table), "scored pair")
        raise DataError(f"{pairs} without two different scores, which a correlation needs.", path)
