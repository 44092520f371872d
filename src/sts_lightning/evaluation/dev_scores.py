"""The score on dev data, by which weights are selected: Spearman of scored pairs, MRR@10 of queries."""

from __future__ import annotations

from typing import Any

from sts_lightning.data.ranking import Ranking
from sts_lightning.data.tasks import Dev
from sts_lightning.evaluation.retrieval import TITLES, mean_scores
from sts_lightning.runs.predictions import SELECTS, Values

DEV_SCORE = "dev/score"
"""Metric of the score that selects, whatever it is of, for callbacks such as early stopping."""


def monitor_of(dev: Dev) -> str:
    """Return the metric by which checkpoints are selected, times 100."""
    return f"dev/{SELECTS if isinstance(dev, Ranking) else 'spearman'}"


def title_of(monitor: str) -> str:
    """Return the name of the score of a metric, for messages and plots."""
    return TITLES.get(monitor.removeprefix("dev/"), "Spearman")


def ranking_entry(values: Values, ranking: Ranking) -> dict[str, Any]:
    """Return the entry of a ranking in the results of a run: means over the queries, times 100."""
    return {**mean_scores(values), "queries": len(ranking), "candidates": len(ranking.candidates)}
