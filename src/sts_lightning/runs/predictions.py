"""Cosines and gold scores of test pairs, stored in a run folder for paired comparisons."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np

from sts_lightning.core.errors import CheckpointError
from sts_lightning.core.files import write_atomic
from sts_lightning.data.readers.sts_sets import STSTask, hashes_of
from sts_lightning.data.tables import gold_of
from sts_lightning.runs.folder import RunFolder, no_run

MOST = 1.001
"""Largest absolute value of a cosine, with its rounding."""


def save_predictions(run: RunFolder, tasks: Sequence[STSTask], cosines: Sequence[np.ndarray]) -> None:
    """Write the arrays ``<task>/cosine`` and ``<task>/gold``, one subset after another, and ``<task>/pairs``.

    The last one is the hash of the task's pairs (`hash_pairs`).

    Args:
        run: Run folder.
        tasks: Test tasks.
        cosines: Cosines of the pairs of each subset of each task, in order.
    """
    remaining = iter(cosines)
    arrays = {f"{name}/pairs": np.array(digest) for name, digest in hashes_of(tasks).items()}
    for task in tasks:
        tables = list(task.subsets.values())
        arrays[f"{task.name}/cosine"] = np.concatenate([next(remaining) for _ in tables])
        arrays[f"{task.name}/gold"] = gold_of(tables)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]  # the stub takes the arrays for a flag
    write_atomic(run.predictions_file, buffer.getvalue())


def load_predictions(run: RunFolder) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the cosines and the gold scores of the pairs of each task.

    Raises:
        CheckpointError: The file is missing or broken.
    """
    path = run.predictions_file
    if not path.is_file():
        if not run.config_file.is_file():
            raise no_run(run.path, run.config_file.name)
        raise CheckpointError(f"{run.path} has no {path.name}: the run has no test report.")
    try:
        with np.load(path) as archive:  # which rejects objects, since they could run code
            arrays = {name: archive[name] for name in archive.files}
    except Exception as error:  # errors of numpy, zipfile and zlib have no common class
        raise CheckpointError(f"{path} is broken ({type(error).__name__}).") from error
    if not arrays:
        raise CheckpointError(f"{path} holds no predictions.")
    predictions = {}
    for task in dict.fromkeys(name.rpartition("/")[0] for name in arrays):
        try:
            cosines, gold = arrays[f"{task}/cosine"], arrays[f"{task}/gold"]
        except KeyError as error:
            raise CheckpointError(f"{path} is broken: it has no array {error.args[0]}.") from error
        _check_arrays(cosines, gold, f"{path}: {task}")
        predictions[task] = (cosines, gold)
    return predictions


def comparable_predictions(run: RunFolder) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the cosines and gold scores of a run whose scores are those of all pairs of a task together.

    Raises:
        CheckpointError: They are missing or broken, or the scores are means over subsets.
    """
    predictions = load_predictions(run)
    how = run.metrics().aggregate if run.metrics_file.is_file() else "all"
    if how != "all":
        raise CheckpointError(
            f"{run.path} was scored with aggregate={how}, and intervals are those of all pairs of a test set "
            "together.",
            hint="Evaluate it with aggregate=all.",
        )
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
        text = run.metrics().details.get("senteval_text") if run.metrics_file.is_file() else None
        with np.load(run.predictions_file) as archive:
            hashes = {name.removesuffix("/pairs"): archive[name] for name in archive if name[-6:] == "/pairs"}
        for task, digest in hashes.items():
            first, other = known.setdefault((task, text), (str(digest), run))
            if first != str(digest):
                raise CheckpointError(
                    f"{other.name} and {run.name} were scored on different pairs under the name {task}: its "
                    "file was changed in between.",
                    hint="Evaluate both on the same file with eval.py, and compare these evaluations.",
                )


def _check_arrays(cosines: np.ndarray, gold: np.ndarray, where: str) -> None:
    if cosines.ndim != 1 or cosines.shape != gold.shape or not len(gold):
        raise CheckpointError(
            f"{where} has cosines of shape {cosines.shape} for gold scores of {gold.shape}."
        )
    for what, values in (("cosine", cosines), ("gold score", gold)):
        if values.dtype.kind not in "fiu" or not np.isfinite(values).all():
            raise CheckpointError(
                f"{where} has a {what} that is not a finite number; evaluate the run again."
            )
    if np.abs(cosines).max() > MOST:
        raise CheckpointError(f"{where} has a cosine outside [-1, 1]; evaluate the run again.")
