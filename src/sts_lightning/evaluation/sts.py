"""STS evaluation by SentEval's protocol, each distinct sentence encoded once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict, get_args

import numpy as np

from sts_lightning.core.choices import Aggregate
from sts_lightning.core.errors import ConfigError
from sts_lightning.data.readers.sts_sets import STSTask
from sts_lightning.data.table import Table, gold_of
from sts_lightning.data.tasks import Task, rankings_of, scored_tasks
from sts_lightning.evaluation.binary import BinaryScores, Thresholds, describe, is_binary, score_binary
from sts_lightning.evaluation.dev_scores import ranking_entry
from sts_lightning.evaluation.encoding import Embedded, Encoder, encode_distinct
from sts_lightning.evaluation.statistics import Correlations, correlate, pair_cosines
from sts_lightning.runs.metrics import main_score
from sts_lightning.runs.predictions import SELECTS, Values


class TaskResult(Correlations):
    """Aggregated score of a task, and the scores of its subsets; ``binary`` if it has only two labels."""

    subsets: dict[str, Correlations]
    binary: NotRequired[BinaryScores]


class STSResult(TypedDict):
    """Scores of a list of tasks; ``average`` is the plain mean of the tasks' Spearman."""

    aggregate: Aggregate
    average: float
    tasks: dict[str, TaskResult]


TestResult = Mapping[str, Any]
"""Scores of test tasks as stored: an `STSResult`, where ``tasks`` may have rankings too."""


def check_aggregate(aggregate: str) -> None:
    """Reject an unknown aggregate with a `ConfigError`."""
    if aggregate not in get_args(Aggregate):
        raise ConfigError(f"aggregate must be one of {', '.join(get_args(Aggregate))}, got {aggregate!r}.")


def evaluate_sts(encoder: Encoder, tasks: Sequence[STSTask], aggregate: Aggregate = "all") -> STSResult:
    """Score tasks, at least one, by the correlation of cosine and gold score."""
    check_aggregate(aggregate)
    tables = [table for task in tasks for table in task.subsets.values()]
    return score_tasks(tasks, encode_pairs(encoder, tables), aggregate)


def encode_pairs(encoder: Encoder, tables: Sequence[Table]) -> list[np.ndarray]:
    """Compute the cosines of the pairs of each table; see `encode_tables` and `table_cosines`."""
    return table_cosines(encode_tables(encoder, tables), tables)


def encode_tables(encoder: Encoder, tables: Sequence[Table]) -> Embedded:
    """Encode each distinct sentence of all tables once.

    Raises:
        TrainingError: A vector is NaN or infinite.
    """
    columns = (table[column] for table in tables for column in ("sentence1", "sentence2"))
    return encode_distinct(encoder, (text for column in columns for text in column))


def table_cosines(vectors: Embedded, tables: Sequence[Table]) -> list[np.ndarray]:
    """Compute the cosines of the pairs of each table, in float64."""
    return [pair_cosines(vectors[table["sentence1"]], vectors[table["sentence2"]]) for table in tables]


def score_tasks(
    tasks: Sequence[STSTask],
    cosines: Sequence[np.ndarray],
    aggregate: Aggregate,
    thresholds: Thresholds | None = None,
) -> STSResult:
    """Correlate cosines with gold scores.

    Args:
        tasks: At least one task.
        cosines: Cosines of the pairs of each subset of each task, in order.
        aggregate: How the subsets of a task become one score.
        thresholds: Thresholds for tasks with two labels; by default the best of each task.
    """
    remaining = iter(cosines)
    results: dict[str, TaskResult] = {}
    for task in tasks:
        golds = [gold_of([table]) for table in task.subsets.values()]
        of_task = [next(remaining) for _ in golds]
        results[task.name] = score_subsets(list(task.subsets), of_task, golds, aggregate)
        gold = np.concatenate(golds)
        if is_binary(gold):
            results[task.name]["binary"] = score_binary(np.concatenate(of_task), gold, thresholds)
    return {"aggregate": aggregate, "average": average_of(results), "tasks": results}


def score_test(
    tasks: Sequence[Task],
    cosines: Sequence[np.ndarray],
    values: Mapping[str, Values],
    aggregate: Aggregate,
    thresholds: Thresholds | None = None,
) -> TestResult:
    """Score tasks of pairs by `score_tasks`, and rankings by the means over their queries.

    Args:
        tasks: At least one task.
        cosines: As for `score_tasks`.
        values: Scores of the queries of each ranking, by its name.
        aggregate: How the subsets of a task become one score.
        thresholds: As for `score_tasks`.
    """
    results: dict[str, Any] = {}
    if scored := scored_tasks(tasks):
        results |= score_tasks(scored, cosines, aggregate, thresholds)["tasks"]
    results |= {task.name: ranking_entry(values[task.name], task) for task in rankings_of(tasks)}
    return {"aggregate": aggregate, "average": average_of(results), "tasks": results}


def average_of(results: Mapping[str, Mapping[str, Any]]) -> float:
    """Return the mean Spearman of the tasks of scored pairs, and of rankings alone their mean MRR@10.

    The two have no common scale.
    """
    scored = [result["spearman"] for result in results.values() if "spearman" in result]
    return float(np.mean(scored or [result[SELECTS] for result in results.values()]))


def score_subsets(
    names: Sequence[str], cosines: Sequence[np.ndarray], golds: Sequence[np.ndarray], aggregate: Aggregate
) -> TaskResult:
    """Correlate the cosines of a task's subsets with their gold scores."""
    subsets = {
        name: correlate(cosine, gold) for name, cosine, gold in zip(names, cosines, golds, strict=True)
    }
    if aggregate == "all":
        whole = correlate(np.concatenate(cosines), np.concatenate(golds))
        return {
            "spearman": whole["spearman"],
            "pearson": whole["pearson"],
            "pairs": whole["pairs"],
            "subsets": subsets,
        }
    scores = subsets.values()
    sizes = [score["pairs"] for score in scores]
    weights = sizes if aggregate == "wmean" else None
    return {
        "spearman": float(np.average([score["spearman"] for score in scores], weights=weights)),
        "pearson": float(np.average([score["pearson"] for score in scores], weights=weights)),
        "pairs": sum(sizes),
        "subsets": subsets,
    }


def describe_binary(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a line for each of the tasks, or dev data, that has two labels."""
    return [describe(name, result["binary"]) for name, result in results.items() if "binary" in result]


def spearman_row(result: TestResult) -> dict[str, float]:
    """Return the score of each task and, of several tasks, the average."""
    row = {name: main_score(task) for name, task in result["tasks"].items()}
    return {**row, "average": result["average"]} if len(row) > 1 else row
