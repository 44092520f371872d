"""Write src/sts_lightning/reproduce/leaked_rows.json: `python tools/leaked_rows.py [DATA_ROOT]`.

It has the numbers of the pairs of the seven test sets that occur in STS-B train or SICK-R train.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import sts_lightning.reproduce
from sts_lightning.data.readers.sts_sets import STSTask, load_sickr, load_sts_tasks, load_stsb
from sts_lightning.data.table import Table, gold_of
from sts_lightning.evaluation.leaks import KINDS, Pairs, find_leaks
from sts_lightning.reproduce.leak_free import LEAK_FREE, PUBLISHED, LeakedRows, SetLeaks, hash_scores


def find_leaked_rows(
    train: Pairs, tasks: Sequence[STSTask], training: str, near: float | None = 0.8
) -> LeakedRows:
    """Find the test pairs that occur in training sets, each with its strongest kind.

    Args:
        train: Training pairs.
        tasks: Test sets; their subsets count as one table, in order.
        training: Name of the training sets.
        near: See `find_leaks`.

    Raises:
        ValueError: ``near`` is out of range.
    """
    firsts, seconds = zip(*train, strict=True)
    table = Table({"sentence1": firsts, "sentence2": seconds})
    pairs = {task.name: [pair for subset in task.subsets.values() for pair in subset.pairs] for task in tasks}
    # Equality of pairs is symmetric, so the test pairs take the place of the training pairs.
    leaks = find_leaks([pair for own in pairs.values() for pair in own], {training: [table]}, near)
    kinds = np.full(sum(map(len, pairs.values())), LEAK_FREE, dtype="<U10")
    for leak in leaks:
        kinds[leak.row] = leak.kind
    parts = np.split(kinds, np.cumsum([len(own) for own in pairs.values()])[:-1])
    tests = {}
    for task, own in zip(tasks, parts, strict=True):
        gold = gold_of(task.subsets.values())
        tests[task.name] = SetLeaks(hash_scores(gold), own)
    return LeakedRows(training, near, tests)


def as_json(found: LeakedRows) -> str:
    """Return the file's text: for each test set the number of pairs, the hash, and row numbers by kind."""
    tests = {
        name: {
            "pairs": len(test.kinds),
            "gold": test.gold,
            **{kind: _ranges(np.flatnonzero(test.kinds == kind)) for kind in KINDS},
        }
        for name, test in found.tests.items()
    }
    return json.dumps({"training": found.training, "near": found.near, "tests": tests}, indent=1) + "\n"


def _ranges(rows: np.ndarray) -> str:
    """Write ascending numbers as ranges: ``0-3 7``."""
    runs = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1) if len(rows) else []
    return " ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def main(data_root: str = "data") -> None:
    """Search the published sets."""
    tables = (load_stsb(data_root, "train"), load_sickr(data_root, "train"))
    train = [pair for table in tables for pair in table.pairs]
    found = find_leaked_rows(train, load_sts_tasks(data_root), "STS-B train and SICK-R train")
    (Path(sts_lightning.reproduce.__file__).parent / PUBLISHED).write_text(as_json(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
