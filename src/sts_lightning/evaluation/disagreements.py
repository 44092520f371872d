"""Test pairs on whose similarity an encoder and the gold scores disagree most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from sts_lightning.data.readers.sts_sets import STSTask
from sts_lightning.data.tables import gold_of, pairs_of


@dataclass(frozen=True)
class Disagreement:
    """A pair with its cosine and gold score, and the place of each among those of the task.

    Attributes:
        task: Name of the task.
        sentence1: First sentence.
        sentence2: Second sentence.
        gold: Gold score.
        cosine: Cosine.
        gold_place: Share of the pairs of the task with a lower gold score, in [0, 1], ties counting half.
        cosine_place: The same of the cosine.
    """

    task: str
    sentence1: str
    sentence2: str
    gold: float
    cosine: float
    gold_place: float
    cosine_place: float


def find_disagreements(
    tasks: Sequence[STSTask], cosines: Sequence[np.ndarray], count: int = 20
) -> list[Disagreement]:
    """Find the pairs whose places by cosine and by gold score differ most, the largest difference first.

    Places are compared, not scores, since Spearman's correlation is what is reported. A pair that a task has
    twice is found once.

    Args:
        tasks: Tasks with scored pairs.
        cosines: Cosines of the pairs of each subset of each task, in order.
        count: Number of pairs.
    """
    remaining = iter(cosines)
    found: list[Disagreement] = []
    for task in tasks:
        tables = list(task.subsets.values())
        own = np.concatenate([next(remaining) for _ in tables])
        gold = gold_of(tables)
        pairs = [pair for table in tables for pair in pairs_of(table)]
        places = [(rankdata(values) - 0.5) / len(values) for values in (gold, own)]
        distinct: dict[tuple[str, str], Disagreement] = {}
        for row in np.argsort(-np.abs(places[0] - places[1]), kind="stable"):
            if len(distinct) == count:
                break
            shown = (float(values[row]) for values in (gold, own, *places))
            distinct.setdefault(pairs[row], Disagreement(task.name, *pairs[row], *shown))
        found += distinct.values()
    found.sort(key=lambda pair: -abs(pair.gold_place - pair.cosine_place))
    return found[:count]
