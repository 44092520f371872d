"""The pairs whose cosine is farthest from their gold score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from sts_lightning.data.readers.sts_sets import STSTask
from sts_lightning.runs.predictions import OfTask, of_pairs


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
    tasks: Sequence[STSTask], found: Mapping[str, OfTask], count: int = 20
) -> list[Disagreement]:
    """Find the pairs whose places by cosine and by gold score differ most, the largest difference first.

    Places are compared, not scores, since Spearman's correlation is what is reported. A pair that a task has
    twice is found once.

    Args:
        tasks: Tasks with scored pairs.
        found: What was found on each of them.
        count: Number of pairs.
    """
    disagreements: list[Disagreement] = []
    for task in tasks:
        similarities, gold = of_pairs(found)[task.name]
        pairs = [pair for table in task.subsets.values() for pair in table.pairs]
        places = [(rankdata(values) - 0.5) / len(values) for values in (gold, similarities)]
        distinct: dict[tuple[str, str], Disagreement] = {}
        for row in np.argsort(-np.abs(places[0] - places[1]), kind="stable"):
            if len(distinct) == count:
                break
            shown = (float(values[row]) for values in (gold, similarities, *places))
            distinct.setdefault(pairs[row], Disagreement(task.name, *pairs[row], *shown))
        disagreements += distinct.values()
    disagreements.sort(key=lambda pair: -abs(pair.gold_place - pair.cosine_place))
    return disagreements[:count]
