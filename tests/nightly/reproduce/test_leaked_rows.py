"""Row numbers of leaked test pairs, and the file of those of the published sets."""

from __future__ import annotations

import numpy as np

from sts_lightning.data.readers.sts_sets import (
    load_sickr,
    load_sts_tasks,
    load_stsb,
)
from sts_lightning.reproduce.leak_free import published_leaks
from tools.leaked_rows import find_leaked_rows


def test_the_published_sets_are_found_again(data_root: str) -> None:
    tables = (load_stsb(data_root, "train"), load_sickr(data_root, "train"))
    train = [pair for table in tables for pair in zip(table["sentence1"], table["sentence2"], strict=True)]
    again = find_leaked_rows(train, load_sts_tasks(data_root), "again")
    stored = published_leaks()
    for name, test in again.tests.items():
        assert stored.tests[name].gold == test.gold
        assert np.array_equal(stored.tests[name].kinds, test.kinds)
