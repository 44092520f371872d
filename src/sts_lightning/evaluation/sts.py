"""STS evaluation by SentEval's protocol, each distinct sentence encoded once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import numpy as np

from sts_lightning.core.choices import Aggregate
from sts_lightning.data.readers.sts_sets import STSTask, tables_of
from sts_lightning.data.table import Table, gold_of
from sts_lightning.data.tasks import Task, rankings_of, scored_tasks
from sts_lightning.evaluation.dev_scores import ranking_entry
from sts_lightning.evaluation.encoding import Embedded, Encoder, encode_distinct
from sts_lightning.evaluation.pair_classification import Thresholds, describe, is_binary, score_binary
from sts_lightning.evaluation.statistics import correlate, pair_cosines
from sts_lightning.runs.metrics import main_score
from sts_lightning.runs.predictions import SELECTS, Values


class TestResult(TypedDict):
    """Scores of test tasks as stored: of each those of `score_subsets`, or a `ranking_entry`.

    Of a task with two labels alone there is ``binary`` too, see `score_binary`.

    ``average`` is that of `average_of`, ``deployed`` what `score_quantized` returns.
    """

    aggregate: Aggregate
    average: float
    tasks: dict[str, Any]
    deployed: NotRequired[dict[str, Any]]


def evaluate_sts(encoder: Encoder, tasks: Sequence[STSTask], aggregate: Aggregate = "all") -> TestResult:
    """Score tasks, at least one, by the correlation of cosine and gold score."""
    return score_tasks(tasks, encode_pairs(encoder, tables_of(tasks)), aggregate)


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
    tasks: Sequence[Task],
    cosines: Iterable[np.ndarray],
    aggregate: Aggregate,
    thresholds: Thresholds | None = None,
    values: Mapping[str, Values] = {},
) -> TestResult:
    """Correlate the cosines of scored pairs with their gold scores, and average the scores of queries.

    Args:
        tasks: At least one task.
        cosines: Cosines of the pairs of each subset of each task of scored pairs, in order.
        aggregate: How the subsets of a task become one score.
        thresholds: Thresholds for tasks with two labels; by default the best of each task.
        values: Scores of the queries of each ranking, by its name.
    """
    remaining = iter(cosines)
    results: dict[str, Any] = {}
    for task in scored_tasks(tasks):
        golds = [gold_of([table]) for table in task.subsets.values()]
        of_task = [next(remaining) for _ in golds]
        results[task.name] = score_subsets(list(task.subsets), of_task, golds, aggregate)
        gold = np.concatenate(golds)
        if is_binary(gold):
            results[task.name]["binary"] = score_binary(np.concatenate(of_task), gold, thresholds)
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
) -> dict[str, Any]:
    """Correlate the cosines of a task's subsets with their gold scores, and aggregate the correlations."""
    subsets = {
        name: correlate(cosine, gold) for name, cosine, gold in zip(names, cosines, golds, strict=True)
    }
    if aggregate == "all":
        return {**correlate(np.concatenate(cosines), np.concatenate(golds)), "subsets": subsets}
    scores = subsets.values()
    sizes = [score["pairs"] for score in scores]
    weights = {"wmean": sizes, "mean": None}[aggregate]
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
