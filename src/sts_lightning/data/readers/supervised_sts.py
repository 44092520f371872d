"""STS-B and SICK-R with all splits, as in SentEval's supervised tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from datasets import Dataset

from sts_lightning.choices import SentEvalText, TextFound
from sts_lightning.data.pair_tables import gold_of, pairs_of
from sts_lightning.data.readers.senteval import load_sickr, load_stsb, text_found
from sts_lightning.errors import DataError

RELATEDNESS_TASKS = ("STSB", "SICKR")


@dataclass(frozen=True)
class ScoredPairs:
    """Scored pairs in SentEval's order: by number of words, then by score."""

    pairs: list[tuple[str, ...]]
    scores: np.ndarray


@dataclass(frozen=True)
class RelatednessTask:
    """Pairs with gold scores on the scale of the original release.

    Attributes:
        name: Name of the task, such as ``SICKR``.
        train, dev, test: Scored pairs of each split.
        text: Text of the sentences.
    """

    name: str
    train: ScoredPairs
    dev: ScoredPairs
    test: ScoredPairs
    text: TextFound | None = field(default=None, kw_only=True)


def load_relatedness_tasks(
    data_root: str | Path, names: Sequence[str] = RELATEDNESS_TASKS, text: SentEvalText = "raw"
) -> list[RelatednessTask]:
    """Load STS-B (scores in [0, 5]) and SICK-R (in [1, 5]) of a data root, unfiltered.

    Args:
        data_root: Data root.
        names: Names of the tasks.
        text: Text of the sentences; files that are prepared already are read as they are.

    Raises:
        DataError: A file is missing or malformed, or a name is unknown.
    """
    unknown = [name for name in names if name not in RELATEDNESS_TASKS]
    if unknown:
        raise DataError(
            f"unknown task {', '.join(unknown)}; the tasks are {', '.join(RELATEDNESS_TASKS)}.", key="tasks"
        )
    tasks = []
    for name in names:
        if name == "STSB":
            tables = [load_stsb(data_root, part, text) for part in ("train", "dev", "test")]
            parts = [_in_order(table) for table in tables]
        else:
            tables = [load_sickr(data_root, part, text) for part in ("train", "trial", "test")]
            parts = [_in_order(table, scale=4 / 5, shift=1) for table in tables]
        tasks.append(RelatednessTask(name, *parts, text=text_found(tables)))
    return tasks


def _in_order(table: Dataset, scale: float = 1, shift: float = 0) -> ScoredPairs:
    scores = shift + scale * gold_of([table])
    pairs = pairs_of(table)
    order = sorted(range(len(pairs)), key=lambda row: (*(len(t.split()) for t in pairs[row]), scores[row]))
    return ScoredPairs([pairs[row] for row in order], scores[order])
