"""The score on dev pairs, by which weights are selected."""

from __future__ import annotations

from typing import NotRequired

import numpy as np
from datasets import Dataset

from sts_lightning.data.readers.sts_sets import STSTask
from sts_lightning.data.tables import gold_of, parts_of
from sts_lightning.evaluation.statistics import Correlations, correlate

MONITOR = "dev/spearman"
"""Metric by which checkpoints are selected: Spearman's correlation times 100 on the dev pairs."""


class DevScores(Correlations):
    """Correlations times 100 on dev pairs; of a suite, the means over its parts."""

    parts: NotRequired[dict[str, Correlations]]


def dev_tasks(dev: Dataset) -> list[STSTask]:
    """Return dev pairs as a task, or a suite as a task for each part."""
    parts = {name: dev.select(range(len(dev))[rows]) for name, rows in parts_of(dev).items()}
    return [STSTask(name, {name: table}) for name, table in (parts or {"dev": dev}).items()]


def score_dev(cosines: np.ndarray, dev: Dataset) -> DevScores:
    """Correlate the cosines (N,) of N dev pairs with their scores."""
    gold = gold_of([dev])
    parts = {name: correlate(cosines[rows], gold[rows]) for name, rows in parts_of(dev).items()}
    if not parts:
        whole = correlate(cosines, gold)
        return {"spearman": whole["spearman"], "pearson": whole["pearson"], "pairs": whole["pairs"]}
    return {
        "spearman": float(np.mean([part["spearman"] for part in parts.values()])),
        "pearson": float(np.mean([part["pearson"] for part in parts.values()])),
        "pairs": len(gold),
        "parts": parts,
    }
