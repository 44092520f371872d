from __future__ import annotations

import numpy as np
import pytest

from sts_lightning.data.readers.sts_sets import load_sts_tasks
from sts_lightning.papers.ceiling import ceiling


def test_the_seven_test_sets(data_root: str) -> None:
    values = {}
    for task in load_sts_tasks(data_root):
        gold = np.concatenate([np.asarray(table["label"]) for table in task.subsets.values()])
        values[task.name] = ceiling(gold)
    assert min(values.values()) == pytest.approx(86.65, abs=0.01)
    assert max(values.values()) == pytest.approx(87.72, abs=0.01)
    assert np.mean(list(values.values())) == pytest.approx(86.84, abs=0.01)
