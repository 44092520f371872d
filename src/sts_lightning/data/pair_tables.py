"""Tables of sentences: `datasets.Dataset` with the columns sentence1, sentence2[, sentence3][, label]."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from datasets import Dataset

from sts_lightning.errors import ConfigError, DataError

log = logging.getLogger(__name__)

LabelKind = Literal["none", "score", "class"]
"""What a label is: nothing, a similarity score in [0, 5], or a class index."""

SCORE_RANGE = (0.0, 5.0)
"""The scale on which every score is kept, that of SemEval's STS tasks."""


@dataclass
class SourceCount:
    """How many rows a source gave, and why the others were left out."""

    source: str
    read: int
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def kept(self) -> int:
        """Rows that are left."""
        return self.read - sum(self.dropped.values())

    def report(self) -> None:
        """Log rows read, dropped and why."""
        reasons = "".join(f", {count:,} dropped: {why}" for why, count in self.dropped.items() if count)
        log.info("%s: %s rows read%s, %s kept", self.source, f"{self.read:,}", reasons, f"{self.kept:,}")


def make_table(columns: Mapping[str, Sequence[Any]]) -> Dataset:
    """A table from named columns of equal length."""
    return Dataset.from_dict({name: list(values) for name, values in columns.items()})


def keep_rows(table: Dataset, keep: Callable[[str, str], bool]) -> Dataset:
    """The rows of a pair table for which ``keep(sentence1, sentence2)`` holds."""
    pairs = zip(table["sentence1"], table["sentence2"], strict=True)
    return table.select([row for row, pair in enumerate(pairs) if keep(*pair)])


def sample_rows(table: Dataset, limit: int | None) -> tuple[Dataset, int]:
    """At most ``limit`` rows, drawn at random but always the same ones, and how many are left out.

    Raises:
        ConfigError: The limit leaves nothing to train on.
    """
    if limit is not None and limit < 2:
        raise ConfigError(f"data.limit must be at least 2, got {limit}.")
    if limit is None or limit >= len(table):
        return table, 0
    chosen = np.random.default_rng(0).permutation(len(table))[:limit]
    return table.select(np.sort(chosen)), len(table) - limit


def require_varied_scores(table: Dataset, path: Path) -> None:
    """Refuse scored pairs on which no correlation exists.

    Raises:
        DataError: Fewer than two rows, or all scores are equal.
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
