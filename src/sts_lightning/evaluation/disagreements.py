"""Scored pairs on which an encoder and the gold scores disagree most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from sts_lightning.data.readers.sts_sets import STSTask
from sts_lightning.data.tables import gold_of, pairs_of


@dataclass(frozen=True)
class Disagreement:
    """A pair with its cosine and gold score, and their percentiles among the pairs of the task.

    Attributes:
        task: Name of the task.
        sentence1: First sentence.
        sentence2: Second sentence.
        gold: Gold score.
        cosine: Cosine.
        gold_percentile: Share of the task's pairs with a lower gold score, in [0, 1], ties counting half.
        cosine_percentile: The same for the cosine.
    """

    task: str
    sentence1: str
    sentence2: str
    gold: float
    cosine: float
    gold_percentile: float
    cosine_percentile: float


def find_disagreements(
    tasks: Sequence[STSTask], cosines: Sequence[np.ndarray], count: int = 20
) -> list[Disagreement]:
    """Find the pairs whose percentiles by cosine and by gold score differ most, the largest difference first.

    Percentiles are compared, not scores, since Spearman's correlation is what is reported. A pair that a task
    has twice is returned once.

    Args:
        tasks: Tasks with scored pairs.
        cosines: Cosines of the pairs of each subset of each task, in order.
        count: Number of pairs.
    """
    remaining = iter(cosines)
    disagreements: list[Disagreement] = []
    for task in tasks:
        tables = list(task.subsets.values())
        scores = [gold_of(tables), np.concatenate([next(remaining) for _ in tables])]
        percentiles = [(rankdata(values) - 0.5) / len(values) for values in scores]
        pairs = [pair for table in tables for pair in pairs_of(table)]
        distinct: dict[tuple[str, str], Disagreement] = {}
        for row in np.argsort(-np.abs(percentiles[0] - percentiles[1]), kind="stable"):
            if len(distinct) == count:
                break
            numbers = (float(values[row]) for values in (*scores, *percentiles))
            distinct.setdefault(pairs[row], Disagreement(task.name, *pairs[row], *numbers))
        disagreements += distinct.values()
    disagreements.sort(key=lambda pair: -abs(pair.gold_percentile - pair.cosine_percentile))
    return disagreements[:count]
