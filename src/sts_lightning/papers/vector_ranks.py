"""Ranks of the vectors of test sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from sts_lightning.data.readers.sts_sets import STSTask
from sts_lightning.evaluation.encoding import Embedded
from sts_lightning.papers.rank import energy_rank, singular_values

FRACTION, POWER = 0.99, 2
"""Fraction of the energy, and power of the singular values, of the ranks; see `energy_rank`."""


class TaskRanks(TypedDict):
    """Energy ranks of a task's vectors; ``score`` is that of both sentences' vectors as they are."""

    score: float
    normalized: float
    first: float
    first_normalized: float
    sentences: int


class RankResult(TypedDict):
    """Ranks of a list of tasks; ``average`` is the plain mean of their scores."""

    fraction: float
    power: int
    average: float
    tasks: dict[str, TaskRanks]


def rank_tasks(tasks: Sequence[STSTask], vectors: Embedded) -> RankResult:
    """Compute the energy rank of the distinct sentences of each task (rank-reduction paper, Table 8).

    The paper reports the mean over the seven test sets. It does not state the fraction of the energy, the
    power of the singular values, or the rows of the matrix; its Sec. 2.2.1 has vectors as they are, not of
    unit length. All four readings of the rows are reported: vectors as they are or of unit length, of both
    sentences of a pair or of the first.

    Args:
        tasks: At least one task.
        vectors: Vectors of all their sentences.
    """
    results: dict[str, TaskRanks] = {}
    for task in tasks:
        first, second = (
            [text for table in task.subsets.values() for text in table[column]]
            for column in ("sentence1", "sentence2")
        )
        both, alone = (vectors[list(dict.fromkeys(texts))] for texts in (first + second, first))
        results[task.name] = {
            "score": _rank(both, normalize=False),
            "normalized": _rank(both, normalize=True),
            "first": _rank(alone, normalize=False),
            "first_normalized": _rank(alone, normalize=True),
            "sentences": len(both),
        }
    average = float(np.mean([result["score"] for result in results.values()]))
    return {"fraction": FRACTION, "power": POWER, "average": average, "tasks": results}


def _rank(vectors: np.ndarray, normalize: bool) -> float:
    return float(energy_rank(singular_values(vectors, normalize=normalize), FRACTION, POWER))
