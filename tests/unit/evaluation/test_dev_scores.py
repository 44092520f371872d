"""The score of dev pairs against scipy and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sts_lightning.data.table import Table
from sts_lightning.evaluation.dev_scores import dev_tasks, score_dev

GOLD = [0.0, 1.0, 2.0, 3.0, 5.0, 0.0, 0.0, 5.0]
COSINES = np.array([0.1, 0.2, 0.4, 0.3, 0.9, 0.7, 0.1, 0.8])


def table(parts: list[str] | None) -> Table:
    sentences = {name: [f"{name} {row}" for row in range(8)] for name in ("sentence1", "sentence2")}
    return Table({**sentences, "label": GOLD, **({} if parts is None else {"part": parts})})


def test_pairs_of_one_kind() -> None:
    found = score_dev(COSINES, table(None))
    assert found["spearman"] == pytest.approx(100 * stats.spearmanr(COSINES, GOLD).statistic)
    assert set(found) == {"spearman", "pearson", "pairs"}
    [task] = dev_tasks(table(None))
    assert (task.name, len(task.subsets["dev"])) == ("dev", 8)


def test_a_suite_has_the_mean_of_its_parts() -> None:
    dev = table(["graded"] * 5 + ["binary"] * 3)
    found = score_dev(COSINES, dev)
    binary = 100 * stats.spearmanr(COSINES[5:], GOLD[5:]).statistic
    assert found["parts"]["graded"]["spearman"] == pytest.approx(90)  # one swap of neighbours among five
    assert found["parts"]["binary"]["spearman"] == pytest.approx(binary)
    assert found["spearman"] == pytest.approx((90 + binary) / 2)
    assert found["pairs"] == 8
    assert [(task.name, len(task.subsets[task.name])) for task in dev_tasks(dev)] == [
        ("graded", 5),
        ("binary", 3),
    ]
