"""Checks of a run's scores: computed again from its predictions, or from its encoder and the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from omegaconf import DictConfig

from sts_lightning.config.build import build
from sts_lightning.config.constraints import check_config
from sts_lightning.data.module import SentenceDataModule
from sts_lightning.errors import CheckpointError
from sts_lightning.evaluation.sts import check_aggregate, score_subsets
from sts_lightning.models.loading import load_from
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics
from sts_lightning.runs.predictions import load_predictions
from sts_lightning.text import counted
from sts_lightning.workflows.scoring import score
from sts_lightning.workflows.verify_weights import not_here

ROUNDING = 1e-6
"""Largest difference of a correlation times 100 that is computed twice from the same numbers."""

TOLERANCE = {"32-true": 0.05, "16-true": 0.5, "bf16-true": 0.5}
"""Largest difference of a correlation times 100 on another machine, by precision: pairs may swap ranks."""


def check_predictions(run: RunFolder, test: Mapping[str, Any]) -> str:
    """Compute the test scores again from the stored cosines and gold scores.

    Args:
        run: The run folder.
        test: Its test scores.

    Returns:
        What was compared.

    Raises:
        CheckpointError: Predictions are missing or broken, or give other scores.
    """
    predictions = load_predictions(run)
    tasks = test["tasks"]
    if predictions.keys() != tasks.keys():
        raise CheckpointError(
            f"{run.predictions_file} has predictions of {', '.join(predictions)}, the scores are of "
            f"{', '.join(tasks)}."
        )
    aggregate = test.get("aggregate", "all")
    check_aggregate(aggregate)
    for name, stored in tasks.items():
        cosines, gold = predictions[name]
        sizes = {subset: values["pairs"] for subset, values in (stored.get("subsets") or {}).items()}
        if not sizes:  # of an earlier version
            sizes = {name: len(gold)}
        if sum(sizes.values()) != len(gold):
            raise CheckpointError(
                f"{run.predictions_file}: {name} has {len(gold)} pairs, its scores are of "
                f"{sum(sizes.values())}."
            )
        cuts = np.cumsum(list(sizes.values()))[:-1]
        again = score_subsets(list(sizes), np.split(cosines, cuts), np.split(gold, cuts), aggregate)
        _compare(stored, again, f"{run.metrics_file}: test.tasks.{name}", ROUNDING)
    mean = float(np.mean([task["spearman"] for task in tasks.values()]))
    _compare({"average": test["average"]}, {"average": mean}, f"{run.metrics_file}: test", ROUNDING)
    pairs = sum(len(gold) for _, gold in predictions.values())
    return f"{counted(pairs, 'pair')} of {counted(len(tasks), 'task')} give the stored scores"


def encode_again(run: RunFolder, cfg: DictConfig, metrics: RunMetrics) -> str:
    """Encode the dev and test sentences again, and compare the scores.

    Args:
        run: The run folder.
        cfg: Its configuration.
        metrics: Its results.

    Returns:
        What was compared.

    Raises:
        CheckpointError: The scores differ by more than another machine explains.
        NotCheckedError: The data or the model's own files are not there.
    """
    with not_here():
        cfg = check_config(cfg)
        data: SentenceDataModule = build("data", cfg.data, SentenceDataModule)
        data.setup()
        encoder = load_from(run, cfg).eval()
    found = score(encoder, data, cfg.evaluation)
    allowed = TOLERANCE[encoder.precision]
    largest = _compare(metrics.dev or {}, found.dev, f"{run.metrics_file}: dev", allowed)
    if metrics.test is not None and found.test is not None:
        where = f"{run.metrics_file}: test.tasks"
        largest = max(largest, _compare(metrics.test["tasks"], found.test["tasks"], where, allowed))
    return f"dev and test scores differ by at most {largest:.4f} from the stored ones ({encoder.precision})"


def _compare(stored: Mapping[str, Any], again: Mapping[str, Any], where: str, allowed: float) -> float:
    """Compare the numbers of nested mappings by the keys of the stored one; return the largest difference."""
    largest = 0.0
    for key, value in stored.items():
        other = again.get(key)
        if isinstance(value, Mapping) and isinstance(other, Mapping):
            largest = max(largest, _compare(value, other, f"{where}.{key}", allowed))
        elif isinstance(value, int | float) and isinstance(other, int | float):
            if not abs(value - other) <= allowed:
                raise CheckpointError(f"{where}.{key} is {value}, but computed again it is {other}.")
            largest = max(largest, abs(value - other))
    return largest
