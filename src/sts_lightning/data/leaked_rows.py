"""Numbers of the test pairs that occur in training sets, kept without any sentence."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from sts_lightning.data.leak_search import KINDS, Pairs, find_leaks
from sts_lightning.data.pair_tables import gold_of, make_table, pairs_of
from sts_lightning.data.readers.senteval import STSTask
from sts_lightning.errors import DataError
from sts_lightning.strict_json import parse_json

CLEAN = ""
"""Kind of a test pair that occurs in no training set."""

PUBLISHED = "leaked_rows.json"
"""File of this package: the pairs of the seven test sets that occur in STS-B train or SICK-R train.

``sts-lightning leaks --rows FILE`` writes it.
"""


@dataclass(frozen=True, eq=False)
class SetLeaks:
    """Pairs of one test set that occur in the training sets.

    Attributes:
        gold: Hash of the gold scores in their order, by which a test set is recognised; see `hash_scores`.
        kinds: Strongest kind of equality of each test pair with a training pair (see `leak_search.Kind`),
            `CLEAN` for a pair that occurs in none, (N,).
    """

    gold: str
    kinds: np.ndarray


@dataclass(frozen=True)
class LeakedRows:
    """Test pairs that occur in training sets.

    Attributes:
        training: Name of the training sets.
        near: Least similarity of nearly equal pairs; None if these were not searched for.
        tests: Leaks of each test set, by name.
    """

    training: str
    near: float | None
    tests: Mapping[str, SetLeaks]

    def fits(self, golds: Mapping[str, np.ndarray]) -> bool:
        """Return whether these are the test sets, or some of them, by their gold scores."""
        return all(
            name in self.tests and self.tests[name].gold == hash_scores(gold) for name, gold in golds.items()
        )


def hash_scores(gold: np.ndarray) -> str:
    """Return a hash of gold scores (N,) to four decimals in their order, the same for all float types."""
    return hashlib.sha256(np.rint(gold.astype(np.float64) * 1e4).astype("<i8").tobytes()).hexdigest()


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
    table = make_table({"sentence1": firsts, "sentence2": seconds})
    pairs = {
        task.name: [pair for subset in task.subsets.values() for pair in pairs_of(subset)] for task in tasks
    }
    # Equality of pairs is symmetric, so the test pairs take the place of the training pairs.
    leaks = find_leaks([pair for own in pairs.values() for pair in own], {training: [table]}, near)
    kinds = np.full(sum(map(len, pairs.values())), CLEAN, dtype="<U10")
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


def read_leaked_rows(path: Path) -> LeakedRows:
    """Read what `as_json` returned.

    Raises:
        DataError: The file is missing or holds something else.
    """
    try:
        return _parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise DataError(
            f"not a file of leaked rows ({type(error).__name__}: {error}).",
            path,
            hint="sts-lightning leaks --rows FILE writes one.",
        ) from error


@cache
def published_leaks() -> LeakedRows:
    """Return the pairs of the seven test sets that occur in STS-B train or SICK-R train."""
    return _parse((files("sts_lightning.data") / PUBLISHED).read_text(encoding="utf-8"))


def _parse(text: str) -> LeakedRows:
    values = parse_json(text)
    tests = {}
    for name, test in values["tests"].items():
        kinds = np.full(test["pairs"], CLEAN, dtype="<U10")
        for kind in KINDS:
            kinds[list(_numbers(test[kind]))] = kind
        tests[str(name)] = SetLeaks(test["gold"], kinds)
    return LeakedRows(values["training"], values["near"], tests)


def _ranges(rows: np.ndarray) -> str:
    """Write ascending numbers as ranges: ``0-3 7``."""
    runs = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1) if len(rows) else []
    return " ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _numbers(text: str) -> Iterable[int]:
    for part in text.split():
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)
