"""Checks of a run folder, before anyone builds on it: nothing is written, and no code of the folder runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sts_lightning.config.check import flatten, path_override
from sts_lightning.config.folders import command_line
from sts_lightning.core.choices import Aggregate
from sts_lightning.core.errors import CheckpointError, ConfigError, counted
from sts_lightning.evaluation.retrieval import mean_scores
from sts_lightning.evaluation.sts import average_of, score_subsets
from sts_lightning.models.loading.pipeline import read_model
from sts_lightning.models.loading.run import model_folder
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics
from sts_lightning.runs.predictions import SELECTS, OfTask, load_dev, load_predictions

ROUNDING = 1e-6
"""Largest difference of a correlation times 100 that is computed twice from the same numbers."""


def verify(run: RunFolder) -> Iterator[tuple[str, str]]:
    """Check a run or an evaluation, up to the first thing that is wrong.

    Yields:
        Name and state of one thing after another.

    Raises:
        UserError: Something is wrong.
    """
    settings = run.settings()
    evaluation = "suite" in settings  # it builds nothing from its settings, and stores no weights
    if not evaluation:
        run.load_config()
    yield run.config_file.name, "the settings can be read"
    if run.state in ("started", "interrupted"):
        resume = command_line("train", path_override("resume", run.name))
        raise CheckpointError(f"{run.name} has not finished.", hint=f"Resume it with: {resume}")
    metrics = run.metrics()
    yield run.metrics_file.name, f"score {metrics.score:.2f}"
    if evaluation:
        return
    try:
        encoder, _ = read_model(str(model_folder(run)))
        count = sum(1 for _ in encoder.parameters())
        yield run.model().name, f"its {count} weights are finite and fit the model"
    except ConfigError as error:
        if error.key != "model.name" or (run.model() / "config.json").is_file():  # it has no other base
            raise
        yield run.model().name, f"not checked: {error}"
    if found := load_dev(run):
        yield run.dev_file.name, f"dev data of the weights: {', '.join(found)}"
    if metrics.test is not None:
        yield run.predictions_file.name, _predictions(run, metrics)


def _predictions(run: RunFolder, metrics: RunMetrics) -> str:
    """Compute the test scores again from the stored cosines and gold scores."""
    predictions, tasks = load_predictions(run), metrics.tasks
    if predictions.keys() != tasks.keys():
        raise CheckpointError(
            f"{run.predictions_file} has predictions of {', '.join(predictions)}, the scores are of "
            f"{', '.join(tasks)}."
        )
    aggregate: Any = metrics.aggregate
    again = {name: _scores(found, tasks[name], aggregate, name) for name, found in predictions.items()}
    stored = flatten(dict(metrics.test or {}))
    for key, value in flatten({"tasks": again, "average": average_of(again)}).items():
        known = stored.get(key)
        if not (isinstance(known, int | float) and abs(known - value) <= ROUNDING):
            raise CheckpointError(
                f"{run.metrics_file}: test.{key} is {known}, but computed again it is {value}."
            )
    units = sum(task.get("pairs", task.get("queries")) for task in again.values())
    return f"{counted(units, 'prediction')} of {counted(len(tasks), 'task')} give the stored scores"


def _scores(found: OfTask, stored: Mapping[str, Any], aggregate: Aggregate, name: str) -> Mapping[str, Any]:
    """Compute the scores of a task from its predictions; of pairs as subsets of the stored sizes."""
    if isinstance(found, dict):
        return {**mean_scores(found), "queries": len(found[SELECTS])}
    cosines, gold = found
    subsets = stored.get("subsets") or {}
    sizes = [subset.get("pairs", 0) for subset in subsets.values()]
    if sum(sizes) != len(gold):
        raise CheckpointError(f"test.tasks.{name}.subsets do not divide the {len(gold)} predictions.")
    ends = np.cumsum(sizes)[:-1]
    return score_subsets(list(subsets), np.split(cosines, ends), np.split(gold, ends), aggregate)
