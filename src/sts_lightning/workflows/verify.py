"""Checks of a run folder, before anyone builds on it: nothing is written, and no code of the folder runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sts_lightning.config.check import flat, path_override
from sts_lightning.config.folders import command_line
from sts_lightning.core.choices import Aggregate
from sts_lightning.core.errors import CheckpointError, ConfigError, UserError, counted
from sts_lightning.evaluation.retrieval import mean_scores
from sts_lightning.evaluation.sts import average_of, check_aggregate, score_subsets
from sts_lightning.models.loading.pipeline import read_model
from sts_lightning.models.loading.run import model_folder
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics
from sts_lightning.runs.predictions import SELECTS, OfTask, load_dev, load_predictions

ROUNDING = 1e-6
"""Largest difference of a correlation times 100 that is computed twice from the same numbers."""


@dataclass(frozen=True)
class Check:
    """One check of a run folder.

    Attributes:
        name: What was checked.
        outcome: Result; ``not checked`` where the model's own files are not on this machine.
        text: What was found, or what is wrong and what to do.
    """

    name: str
    outcome: Literal["ok", "wrong", "not checked"]
    text: str


def verify(run: RunFolder) -> Iterator[Check]:
    """Check a run or an evaluation, up to the first thing that is wrong.

    Args:
        run: The folder.

    Yields:
        One check after another.
    """
    name = run.config_file.name
    try:
        settings = run.settings()
        if "suite" not in settings:  # an evaluation builds nothing from its settings
            run.load_config()
        yield Check(name, "ok", "the settings can be read")
        name = run.metrics_file.name
        metrics = _results(run)
        yield Check(name, "ok", f"score {metrics.score:.2f}")
        if "suite" in settings:  # nor stores weights
            return
        name = run.model().name
        try:
            yield Check(name, "ok", _weights(run))
        except ConfigError as error:
            if error.key != "model.name" or (run.model() / "config.json").is_file():  # it has no other base
                raise
            yield Check(name, "not checked", str(error))
        name = run.dev_file.name
        if found := load_dev(run):
            yield Check(name, "ok", f"dev data of the weights: {', '.join(found)}")
        name = run.predictions_file.name
        if metrics.test is not None:
            yield Check(name, "ok", _predictions(run, metrics.test))
    except UserError as error:
        yield Check(name, "wrong", str(error))


def _results(run: RunFolder) -> RunMetrics:
    if run.state in ("started", "interrupted"):
        raise CheckpointError(
            "the run has not finished.",
            hint=f"Resume it with: {command_line('train', path_override('resume', run.name))}",
        )
    return run.metrics()


def _weights(run: RunFolder) -> str:
    """Load the model of a run, whose weights have to be finite and fit."""
    encoder, _ = read_model(str(model_folder(run)))
    return f"its {sum(1 for _ in encoder.parameters())} weights are finite and fit the model"


def _predictions(run: RunFolder, test: Mapping[str, Any]) -> str:
    """Compute the test scores again from the stored cosines and gold scores."""
    predictions, tasks = load_predictions(run), test["tasks"]
    if predictions.keys() != tasks.keys():
        raise CheckpointError(
            f"{run.predictions_file} has predictions of {', '.join(predictions)}, the scores are of "
            f"{', '.join(tasks)}."
        )
    check_aggregate(aggregate := test.get("aggregate", "missing"))
    where = f"{run.metrics_file}: test"
    again = {
        name: _scores(found, tasks[name], aggregate, f"{where}.tasks.{name}")
        for name, found in predictions.items()
    }
    computed = flat({"tasks": again, "average": average_of(again)})
    stored = flat({"tasks": tasks, "average": test["average"]})
    for key in {**stored, **computed}:
        value, other = stored.get(key), computed.get(key)
        if isinstance(value, int | float | None) and (
            value is None or other is None or not abs(value - other) <= ROUNDING
        ):
            raise CheckpointError(f"{where}.{key} is {value}, but computed again it is {other}.")
    pairs = sum(task.get("pairs", task.get("queries")) for task in again.values())
    return f"{counted(pairs, 'prediction')} of {counted(len(tasks), 'task')} give the stored scores"


def _scores(found: OfTask, stored: Mapping[str, Any], aggregate: Aggregate, where: str) -> Mapping[str, Any]:
    """Compute the scores of a task from its predictions; what these do not give is as stored.

    Raises:
        CheckpointError: The sizes of its subsets are not stored, or are others.
    """
    if isinstance(found, dict):
        return {**stored, **mean_scores(found), "queries": len(found[SELECTS])}
    cosines, gold = found
    sizes = {key: values.get("pairs", 0) for key, values in (stored.get("subsets") or {}).items()}
    if not (sizes and all(sizes.values())) or sum(list(sizes.values())[:-1]) >= len(gold):
        raise CheckpointError(f"{where}.subsets do not divide the {len(gold)} predictions.")
    ends = np.cumsum(list(sizes.values()))[:-1]
    again = score_subsets(list(sizes), np.split(cosines, ends), np.split(gold, ends), aggregate)
    return {**again, "binary": stored.get("binary", {})}
