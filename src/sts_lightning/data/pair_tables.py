"""Tables of sentences: `datasets.Dataset` with the columns sentence1, sentence2[, sentence3][, label]."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset, DatasetInfo

from sts_lightning.errors import DataError

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
    """

    source: str
    read: int
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def kept(self) -> int:
        """Rows that remain."""
        return self.read - sum(self.dropped.values())

    def report(self) -> None:
        """Log the rows read, dropped (with reasons) and kept."""
        reasons = "".join(f", {count:,} dropped: {why}" for why, count in self.dropped.items() if count)
        log.info("%s: %s rows read%s, %s kept", self.source, f"{self.read:,}", reasons, f"{self.kept:,}")


def make_table(columns: Mapping[str, Sequence[Any]], description: str = "") -> Dataset:
    """Build a table from named columns of equal length."""
    values = {name: list(column) for name, column in columns.items()}
    return Dataset.from_dict(values, info=DatasetInfo(description=description))


def keep_rows(table: Dataset, keep: Callable[[str, str], bool]) -> Dataset:
    """Return the rows of a pair table for which ``keep(sentence1, sentence2)`` holds."""
    return table.select(rows_to_keep(table, keep))


def rows_to_keep(table: Dataset, keep: Callable[[str, str], bool]) -> list[int]:
    """Return the indices of the rows of a pair table for which ``keep(sentence1, sentence2)`` holds."""
    pairs = zip(table["sentence1"], table["sentence2"], strict=True)
    return [row for row, pair in enumerate(pairs) if keep(*pair)]


def check_limit(limit: int | None) -> None:
    """Check that a limit leaves rows to train on.

    Raises:
        ValueError: The limit is less than 2.
    """
    if limit is not None and limit < 2:
        raise ValueError(f"limit must be at least 2, got {limit}.")


def sample_rows(table: Dataset, limit: int | None) -> tuple[Dataset, int]:
    """Return a fixed random sample of at most ``limit`` rows, and the number of rows left out."""
    if limit is None or limit >= len(table):
        return table, 0
    chosen = np.random.default_rng(0).permutation(len(table))[:limit]
    return table.select(np.sort(chosen)), len(table) - limit


def require_varied_scores(table: Dataset, path: Path | str) -> None:
    """Reject scored pairs on which correlations are undefined.

    Raises:
        DataError: There are fewer than two rows, or all scores are equal.
    """
    labels = np.asarray(table["label"])
    if len(labels) < 2:
        raise DataError(f"{len(labels)} scored pair(s); a correlation needs at least two.", path)
    if (labels == labels[0]).all():
        raise DataError(
            f"all {len(labels):,} scores equal {labels[0]:g}; Pearson's and Spearman's correlation are "
            "undefined on constant scores.",
            path,
        )
