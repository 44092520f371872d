from __future__ import annotations

from sts_lightning.data.readers.sts_sets import load_sickr, load_sts_tasks, load_stsb
from sts_lightning.evaluation.leaks import KINDS, find_leaks


def test_the_papers_filter(data_root: str) -> None:
    """The counts of STS-B and SICK-R train: 10,249 - 4,851 = 5,398 pairs, 80 fewer when normalised."""
    tests = {task.name: list(task.subsets.values()) for task in load_sts_tasks(data_root)}
    tables = (load_stsb(data_root, "train"), load_sickr(data_root, "train"))
    train = [pair for table in tables for pair in zip(table["sentence1"], table["sentence2"], strict=True)]
    rows = {kind: set[int]() for kind in KINDS}
    for leak in find_leaks(train, tests):
        rows[leak.kind].add(leak.row)
    literally = rows["exact"] | rows["swapped"]
    assert len(train) == 10_249
    assert len(literally) == 4_851
    assert len(rows["normalized"] - literally) == 80
    assert len(rows["near"] - literally - rows["normalized"]) == 434  # by comparing all pairs of sentences
