"""Audit of a model: its similarities of the test pairs, read or computed, and what they say of leaks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sts_lightning.data.leaked_rows import LeakedRows
from sts_lightning.data.pair_tables import gold_of
from sts_lightning.data.readers.senteval import STSTask
from sts_lightning.errors import CheckpointError, DataError
from sts_lightning.evaluation.audit import Audit, audit, audited_pairs
from sts_lightning.evaluation.clean_subset import CleanScore, clean_scores
from sts_lightning.evaluation.correlation import pair_cosines, require_finite
from sts_lightning.evaluation.sts import encode_pairs
from sts_lightning.models.loading import load
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.predictions import as_predictions, load_predictions, read_arrays

WORD_OVERLAP = "word overlap"
"""Reference without a model."""

SIDES = ("first", "second")
"""Ends of the names of arrays of vectors."""


@dataclass(frozen=True)
class AuditReport:
    """What `audit_model` finds.

    Attributes:
        audit: Differences between leaked and clean pairs.
        scores: Scores of the model on all and on clean pairs, by test set; None if they are undefined.
        reference_scores: Those of the reference.
    """

    audit: Audit
    scores: dict[str, CleanScore] | None
    reference_scores: dict[str, CleanScore] | None


def audit_model(
    source: str,
    reference: str | None,
    tasks: Sequence[STSTask],
    leaks: LeakedRows,
    resamples: int = 2000,
    trust: Sequence[str] = (),
    trust_remote_code: bool = False,
) -> AuditReport:
    """Audit a model on the test sets; see `sts_lightning.evaluation.audit.audit`.

    Args:
        source: See `read_similarities`.
        reference: Likewise; None for the overlap of words.
        tasks: Test sets.
        leaks: Test pairs that occur in training sets.
        resamples: Number of permutations, and of bootstrap resamples.
        trust: See `sts_lightning.models.loading.load`.
        trust_remote_code: Likewise.

    Raises:
        DataError: The leaks are those of other test sets.
        UserError: A source cannot be read, or is about other test sets.
    """
    golds = {task.name: _gold(task) for task in tasks}
    if not leaks.fits(golds):
        raise DataError(
            "the test sets have other gold scores than those whose leaks are known.",
            key="rows",
            hint="sts-lightning leaks --rows FILE finds theirs; then add --rows FILE.",
        )
    pairs = audited_pairs(tasks, leaks)
    found = []
    for one in (source, reference):
        if one is None:
            parts = np.split(pairs.overlap, np.cumsum([len(gold) for gold in golds.values()])[:-1])
            found.append(dict(zip(golds, zip(parts, golds.values(), strict=True), strict=True)))
        else:
            found.append(read_similarities(one, tasks, trust, trust_remote_code))
    own, other = (np.concatenate([scores for scores, _ in one.values()]) for one in found)
    return AuditReport(audit(own, other, pairs, resamples), *(clean_scores(one, leaks) for one in found))


def read_similarities(
    source: str, tasks: Sequence[STSTask], trust: Sequence[str] = (), trust_remote_code: bool = False
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return a model's similarities and the gold scores of the pairs of each test set.

    Args:
        source: A run or evaluation with predictions; an ``.npz`` file with the arrays ``<set>/cosine`` and
            ``<set>/gold`` of predictions, or the vectors ``<set>/first`` and ``<set>/second``, (pairs, D)
            each; or what `sts_lightning.models.loading.load` reads, which is encoded.
        tasks: Test sets; subsets of a set follow each other in this order.
        trust: See `load`.
        trust_remote_code: Likewise.

    Raises:
        UserError: The source cannot be read, or is about other test sets.
    """
    path = Path(source)
    golds = {task.name: _gold(task) for task in tasks}
    if path.suffix == ".npz":
        found = _read_file(path, golds)
    elif path.is_dir() and RunFolder(path).last_stage().predictions_file.is_file():
        found = load_predictions(RunFolder(path).last_stage())
    else:
        tables = [table for task in tasks for table in task.subsets.values()]
        cosines = np.concatenate(encode_pairs(load(source, trust, trust_remote_code), tables))
        parts = np.split(cosines, np.cumsum([len(gold) for gold in golds.values()])[:-1])
        return dict(zip(golds, zip(parts, golds.values(), strict=True), strict=True))
    missing = [name for name in golds if name not in found]
    if missing:
        raise CheckpointError(f"{source} has no similarities of {', '.join(missing)}.")
    for name, gold in golds.items():
        scores = found[name][1]
        if len(scores) != len(gold) or not np.allclose(scores, gold, atol=1e-4):
            raise CheckpointError(
                f"{source}: {name} has other gold scores than the test set, so its pairs are others or in "
                "another order."
            )
    return {name: (found[name][0], gold) for name, gold in golds.items()}


def _gold(task: STSTask) -> np.ndarray:
    return gold_of(task.subsets.values())


def _read_file(path: Path, golds: dict[str, np.ndarray]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Read predictions, or compute them from vectors."""
    try:
        arrays = read_arrays(path)
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} does not exist.") from error
    if not any(name.endswith(SIDES) for name in arrays):
        return as_predictions(arrays, path)
    found = {}
    for name, gold in golds.items():
        sides = [arrays.get(f"{name}/{side}") for side in SIDES]
        first, second = sides
        if first is None or second is None:
            continue
        if first.ndim != 2 or first.shape != second.shape or len(first) != len(gold):
            raise CheckpointError(
                f"{path}: {name} has vectors of shape {first.shape} and {second.shape}, expected twice "
                f"({len(gold)}, D)."
            )
        found[name] = (pair_cosines(require_finite(first), require_finite(second)), gold)
    return found
