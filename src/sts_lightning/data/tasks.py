"""What an encoder is judged on: scored pairs, which it correlates with, and queries, which it ranks for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from datasets import Dataset

from sts_lightning.data.ranking import Ranking
from sts_lightning.data.readers.sts_sets import STSTask, tables_of
from sts_lightning.data.tables import hash_pairs, make_table

Task: TypeAlias = STSTask | Ranking
"""A test task."""

Dev: TypeAlias = Dataset | Ranking
"""Scored pairs, or queries, by which weights are selected."""


def scored_tasks(tasks: Iterable[Task]) -> list[STSTask]:
    """Return the tasks of scored pairs."""
    return [task for task in tasks if isinstance(task, STSTask)]


def rankings_of(tasks: Iterable[Task]) -> list[Ranking]:
    """Return the rankings."""
    return [task for task in tasks if isinstance(task, Ranking)]


def pairs_in(tasks: Iterable[Task]) -> list[Dataset]:
    """Return all pairs of tasks: scored ones, and queries with their answers."""
    return [table for task in tasks for table in _tables(task)]


def _tables(task: Task) -> list[Dataset]:
    return [task.pairs] if isinstance(task, Ranking) else tables_of([task])


def texts_in(dev: Dev, tasks: Iterable[Task]) -> list[Dataset]:
    """Return all texts of dev and test data, as tables of sentences."""
    found: list[Dataset] = []
    for each in (dev, *tasks):
        if isinstance(each, Ranking):
            found += [make_table({"sentence1": texts}) for _, texts in each.texts()]
        else:
            found += [each] if isinstance(each, Dataset) else tables_of([each])
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
