"""The score on dev data, by which weights are selected: Spearman of scored pairs, MRR@10 of queries."""

from __future__ import annotations

from typing import Any

import numpy as np

from sts_lightning.data.ranking import Ranking
from sts_lightning.data.readers.sts_sets import STSTask
from sts_lightning.data.table import Table, gold_of, parts_of
from sts_lightning.data.tasks import Dev
from sts_lightning.evaluation.retrieval import TITLES, mean_scores
from sts_lightning.evaluation.statistics import correlate
from sts_lightning.runs.predictions import SELECTS, Values

DEV_SCORE = "dev/score"
"""Metric of the score that selects, whatever it is of, for callbacks such as early stopping."""


def monitor_of(dev: Dev) -> str:
    """Return the metric by which checkpoints are selected, times 100."""
    return f"dev/{SELECTS if isinstance(dev, Ranking) else 'spearman'}"


def title_of(monitor: str) -> str:
    """Return the name of the score of a metric, for messages and plots."""
    return TITLES.get(monitor.removeprefix("dev/"), "Spearman")


def dev_tasks(dev: Table) -> list[STSTask]:
    """Return dev pairs as a task, or a suite as a task for each part."""
    parts = {name: dev[rows] for name, rows in parts_of(dev).items()}
    return [STSTask(name, {name: table}) for name, table in (parts or {"dev": dev}).items()]


def score_dev(cosines: np.ndarray, dev: Table) -> dict[str, Any]:
    """Correlate the cosines (N,) of N dev pairs with their scores; of a suite, the means over its parts."""
    gold = gold_of([dev])
    parts = {name: correlate(cosines[rows], gold[rows]) for name, rows in parts_of(dev).items()}
    if not parts:
        return {**correlate(cosines, gold)}
    return {
        "spearman": float(np.mean([part["spearman"] for part in parts.values()])),
        "pearson": float(np.mean([part["pearson"] for part in parts.values()])),
        "pairs": len(gold),
        "parts": parts,
    }


def ranking_entry(values: Values, ranking: Ranking) -> dict[str, Any]:
    """Return the entry of a ranking in the results of a run: means over the queries, times 100."""
    return {**mean_scores(values), "queries": len(ranking), "candidates": len(ranking.candidates)}
