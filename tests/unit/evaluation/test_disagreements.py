from __future__ import annotations

import numpy as np
import pytest

from sts_lightning.data.readers.sts_sets import STSTask
from sts_lightning.data.table import Table
from sts_lightning.evaluation.disagreements import find_disagreements
from sts_lightning.runs.predictions import found_on


def task(name: str, *golds: list[float]) -> STSTask:
    tables = {
        f"{name}{number}": Table(
            {
                "sentence1": [f"{name}{number} {row}" for row in range(len(gold))],
                "sentence2": ["other"] * len(gold),
                "label": gold,
            }
        )
        for number, gold in enumerate(golds)
    }
    return STSTask(name, tables)


def test_places_by_hand() -> None:
    tasks = [task("a", [0.0, 5.0], [1.0, 5.0]), task("b", [0.0, 1.0])]
    cosines = [np.array([0.9, 0.8]), np.array([0.1, 0.2]), np.array([0.3, 0.2])]
    found_in = found_on(tasks, cosines)
    found = find_disagreements(tasks, found_in, 3)
    assert [(pair.task, pair.sentence1) for pair in found] == [("a", "a0 0"), ("b", "b0 0"), ("b", "b0 1")]
    first = found[0]
    assert (first.gold, first.cosine, first.sentence2) == (0.0, 0.9, "other")
    assert (first.gold_place, first.cosine_place) == (pytest.approx(1 / 8), pytest.approx(7 / 8))
    tied = next(pair for pair in find_disagreements(tasks, found_in) if pair.sentence1 == "a0 1")
    assert tied.gold_place == pytest.approx(3 / 4)  # half of two pairs above two others
    assert len(find_disagreements(tasks, found_in)) == 6


def test_a_pair_that_a_task_has_twice_is_found_once() -> None:
    table = Table({"sentence1": list("aabc"), "sentence2": list("xxyz"), "label": [0.0, 0.0, 1.0, 2.0]})
    twice = STSTask("a", {"one": table})
    found = find_disagreements([twice], found_on([twice], [np.array([0.9, 0.9, 0.2, 0.3])]), 2)
    assert [(pair.sentence1, pair.sentence2) for pair in found][:1] == [("a", "x")]
    assert len({(pair.sentence1, pair.sentence2) for pair in found}) == len(found) == 2
