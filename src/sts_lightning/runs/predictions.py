"""Cosines and gold scores of pairs, and scores of queries, stored in a run folder for paired comparisons."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from sts_lightning.core.errors import CheckpointError
from sts_lightning.core.files import write_atomic
from sts_lightning.data.readers.sts_sets import STSTask
from sts_lightning.data.table import gold_of
from sts_lightning.data.tasks import Task, hashes_of
from sts_lightning.runs.folder import RunFolder, missing_run_error

DEV = "dev"
"""Name of the dev data among the predictions of a run without a test report."""

SELECTS = "mrr@10"
"""The score of queries by which weights are selected, and which intervals are of."""

ABOUT = ("pairs", "step")
"""Names of arrays that are about a task or its weights, beside those with a value of each pair or query."""

Values = dict[str, np.ndarray]
"""Scores of each query by name."""

OfTask = tuple[np.ndarray, np.ndarray] | Values
"""Cosines and gold scores of the pairs of a task, or the scores of its queries."""


def found_on(
    tasks: Sequence[Task], cosines: Sequence[np.ndarray], values: Mapping[str, Values] = {}
) -> dict[str, OfTask]:
    """Return by name what was found on each task, of scored pairs one subset after another.

    Args:
        tasks: Test tasks.
        cosines: Cosines of the pairs of each subset of each task of scored pairs, in order.
        values: Scores of the queries of each ranking, by its name.
    """
    remaining = iter(cosines)
    found: dict[str, OfTask] = {}
    for task in tasks:
        if isinstance(task, STSTask):
            tables = list(task.subsets.values())
            found[task.name] = (np.concatenate([next(remaining) for _ in tables]), gold_of(tables))
        else:
            found[task.name] = values[task.name]
    return found


def save_predictions(run: RunFolder, tasks: Sequence[Task], found: Mapping[str, OfTask]) -> None:
    """Write the arrays ``<task>/cosine`` and ``<task>/gold``, or one of each score of queries.

    ``<task>/pairs`` is the hash of the task's pairs (`hashes_of`).

    Args:
        run: Run folder.
        tasks: Test tasks.
        found: What was found on each of them.
    """
    hashes = {task: np.array(digest) for task, digest in hashes_of(tasks).items()}
    stored = {task: {**_named(each), "pairs": hashes[task]} for task, each in found.items()}
    _write(run.predictions_file, stored)


def save_dev(run: RunFolder, step: int, found: OfTask, selected: bool) -> None:
    """Write what the weights before training, or those that are selected so far, give on the dev data."""
    stored = _read(run.dev_file) if selected and run.dev_file.is_file() else {}
    name = "selected" if selected else "untuned"
    _write(run.dev_file, stored | {name: {**_named(found), "step": np.array(step)}})


def constant(found: OfTask) -> OfTask:
    """Return what a predictor without a score gives: equal cosines, or no answer among the first."""
    if isinstance(found, dict):
        return {SELECTS: np.zeros_like(found[SELECTS])}
    return np.zeros_like(found[1]), found[1]


def load_dev(run: RunFolder) -> dict[str, tuple[int, OfTask]]:
    """Return step and dev data of the weights before training and of the selected ones, as far as known.

    Raises:
        CheckpointError: The file is broken.
    """
    stored = _read(run.dev_file) if run.dev_file.is_file() else {}
    return {name: (int(arrays["step"]), _of_task(arrays)) for name, arrays in stored.items()}


def _named(found: OfTask) -> Values:
    return found if isinstance(found, dict) else dict(zip(("cosine", "gold"), found, strict=True))


def _write(path: Path, found: Mapping[str, Values]) -> None:
    arrays = {f"{task}/{name}": each for task, values in found.items() for name, each in values.items()}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]  # the stub takes the arrays for a flag
    write_atomic(path, buffer.getvalue())


def _read(path: Path) -> dict[str, Values]:
    """Return the arrays in a file by task and name."""
    found: dict[str, Values] = {}
    try:
        with np.load(path) as archive:  # which rejects objects, since they could run code
            for key in archive.files:
                task, _, name = key.rpartition("/")
                found.setdefault(task, {})[name] = archive[key]
    except Exception as error:  # errors of numpy, zipfile and zlib have no common class
        raise CheckpointError(f"{path} is broken ({type(error).__name__}).") from error
    return found


def _of_task(arrays: Values) -> OfTask:
    if SELECTS in arrays:
        return {name: each for name, each in arrays.items() if name not in ABOUT}
    return arrays["cosine"], arrays["gold"]


def load_predictions(run: RunFolder) -> dict[str, OfTask]:
    """Return the cosines and the gold scores of the pairs of each task, or the scores of its queries.

    Raises:
        CheckpointError: The file is missing or broken.
    """
    path = run.predictions_file
    if not path.is_file():
        if not run.config_file.is_file():
            raise missing_run_error(run.path, run.config_file.name)
        raise CheckpointError(f"{run.path} has no {path.name}: the run has no test report.")
    return {task: _of_task(arrays) for task, arrays in _read(path).items()}


def of_pairs(predictions: Mapping[str, OfTask]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the predictions of the tasks of scored pairs."""
    return {task: found for task, found in predictions.items() if not isinstance(found, dict)}


def comparable_predictions(run: RunFolder) -> dict[str, OfTask]:
    """Return the predictions of a run whose scores are those of all pairs of a task together.

    Those of a run without a test report are of its dev data, under `DEV`.

    Raises:
        CheckpointError: They are missing or broken, or the scores are means over subsets.
    """
    if not run.predictions_file.is_file() and "selected" in (dev := load_dev(run)):
        return {DEV: dev["selected"][1]}
    predictions = load_predictions(run)
    how = run.known_metrics().aggregate
    if how != "all":
        text = f"{run.path} was scored with aggregate={how}; intervals are of all pairs of a set together."
        raise CheckpointError(text, hint="Evaluate it with aggregate=all.")
    return predictions


def check_same_texts(runs: Sequence[RunFolder]) -> None:
    """Reject runs whose predictions are on other texts or scores under the same name of a task.

    What another version of the package predicted may have no hash, and is not checked. STS12-16, STS-B and
    SICK have two texts of the same pairs (``senteval_text``), which may be compared.

    Raises:
        CheckpointError: The content of a test file has changed between two of them.
    """
    known: dict[tuple[str, object], tuple[str, RunFolder]] = {}
    for run in runs:
        metrics = run.known_metrics()
        text, hashes = metrics.details.get("senteval_text"), {DEV: metrics.content.get("dev")}
        if run.predictions_file.is_file():
            stored = _read(run.predictions_file)
            hashes = {task: arrays["pairs"] for task, arrays in stored.items() if "pairs" in arrays}
        for task, digest in hashes.items():
            if digest is None:
                continue
            first, other = known.setdefault((task, text), (str(digest), run))
            if first != str(digest):
                raise CheckpointError(
                    f"{other.name} and {run.name} were scored on different pairs under the name {task}: its "
                    "file was changed in between.",
                    hint="Evaluate both on the same file with eval.py, and compare these evaluations.",
                )
