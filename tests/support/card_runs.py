"""Run folders without weights, for model cards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import yaml
from scipy import stats

from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics

SETTINGS: dict[str, Any] = {
    "name": "mine",
    "seed": 7,
    "model": {"_target_": "a.b.from_pretrained", "name": "owner/base@abc123", "pooling": "cls"},
    "prompt": {"template": 'A "{sentence}"', "pooling": "mean"},
    "loss": {"_target_": "sts_lightning.losses.cosent.CoSENTLoss", "scale": 20.0},
    "regularizer": {},
    "data": {"_target_": "sts_lightning.data.sts_train.sts_train", "batch_size": 64},
    "optim": {"lr": 5e-5},
}

COUNT: dict[str, Any] = {"source": "STS-B train", "unit": "pairs", "rows": 991, "published": None}


def bare(**facts: Any) -> dict[str, Any]:
    """Facts of a run of which nothing is known but these."""
    unknown = {"recipe": {}, "metrics": RunMetrics(None), "intervals": {}, "mixed": False, "datasets": None}
    return {"run": "mine", "base": {"name": "base"}, **unknown, **facts}


def write_run(folder: Path, aggregate: str = "all", **details: Any) -> dict[str, float]:
    """A finished run of two tasks, and its scores."""
    run = RunFolder(folder)
    folder.mkdir(parents=True)
    run.config_file.write_text(yaml.safe_dump(SETTINGS))
    rng = np.random.default_rng(0)
    arrays, scores = {}, {}
    for task, size in (("STSB", 60), ("mine|<b>", 20)):
        gold = rng.uniform(0, 5, size)
        cosines = np.tanh(gold / 5 + rng.normal(0, 0.2, size))
        arrays |= {f"{task}/cosine": cosines, f"{task}/gold": gold}
        scores[task] = 100 * float(stats.spearmanr(cosines, gold).statistic)
    np.savez(run.predictions_file, **arrays)
    tasks = {name: {"spearman": score, "pairs": 50} for name, score in scores.items()}
    average = float(np.mean(list(scores.values())))
    test = {"aggregate": aggregate, "average": average, "tasks": tasks}
    run.save_metrics(RunMetrics(test, {"spearman": 61.5, "pearson": 60.0, "pairs": 1500}, details))
    return {**scores, "average": average}
