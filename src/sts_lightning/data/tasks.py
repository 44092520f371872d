"""What an encoder is judged on: scored pairs, which it correlates with, and queries, which it ranks for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from sts_lightning.data.ranking import Ranking
from sts_lightning.data.readers.sts_sets import STSTask, tables_of
from sts_lightning.data.table import Table, hash_pairs

Task: TypeAlias = STSTask | Ranking
"""A test task."""

Dev: TypeAlias = Table | Ranking
"""Scored pairs, or queries, by which weights are selected."""


def scored_tasks(tasks: Iterable[Task]) -> list[STSTask]:
    """Return the tasks of scored pairs."""
    return [task for task in tasks if isinstance(task, STSTask)]


def rankings_of(tasks: Iterable[Task]) -> list[Ranking]:
    """Return the rankings."""
    return [task for task in tasks if isinstance(task, Ranking)]


def pairs_in(tasks: Iterable[Task]) -> list[Table]:
    """Return all pairs of tasks: scored ones, and queries with their answers."""
    return [table for task in tasks for table in _tables(task)]


def _tables(task: Task) -> list[Table]:
    return [task.pairs] if isinstance(task, Ranking) else tables_of([task])


def texts_in(dev: Dev, tasks: Iterable[Task]) -> list[Table]:
    """Return all texts of dev and test data, as tables of sentences."""
    found: list[Table] = []
    for each in (dev, *tasks):
        if isinstance(each, Ranking):
            found += [Table({"sentence1": texts}) for _, texts in each.texts()]
        else:
            found += [each] if isinstance(each, Table) else tables_of([each])
    return found


def hash_dev(dev: Dev) -> str:
    """Return a hash of what selects weights."""
    return dev.hash if isinstance(dev, Ranking) else hash_pairs([dev])


def hashes_of(tasks: Sequence[Task]) -> dict[str, str]:
    """Return a hash of the pairs of each task, by name."""
    return {
        task.name: task.hash if isinstance(task, Ranking) else hash_pairs(task.subsets.values())
        for task in tasks
    }
