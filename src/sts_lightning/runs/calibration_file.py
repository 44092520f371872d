"""Map from cosines to the user's scores, stored as JSON with a fingerprint of the encoder that it is for."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from sts_lightning.data.readers.row_values import checked_range
from sts_lightning.errors import CheckpointError
from sts_lightning.files import write_atomic
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.predictions import MOST
from sts_lightning.strict_json import as_type, read_json


@dataclass(frozen=True)
class Calibration:
    """Monotone map from cosines to scores, and the half-width of intervals around it.

    Attributes:
        cosines: Cosines of the map's knots, ascending.
        scores: Scores at the knots, never descending; linear between them, constant beyond.
        half_width: Distance of an interval's ends from the score.
        coverage: Nominal coverage of the intervals.
        score_range: Lowest and highest possible score, at which intervals end; None for no bounds.
        fitted: Number of pairs that the map was fitted to.
        held_out: Number of other pairs, which set the half-width.
    """

    cosines: tuple[float, ...]
    scores: tuple[float, ...]
    half_width: float
    coverage: float
    score_range: tuple[float, float] | None
    fitted: int
    held_out: int


def fingerprint(run: RunFolder) -> str:
    """Return a SHA-256 of what determines the vectors of a run: its selected weights and its settings.

    The name of the base model is left out, since it may be a folder that moves.

    Raises:
        CheckpointError: The weights or the configuration are missing or broken.
    """
    settings = run.settings()
    model, evaluation = (settings.get(name) for name in ("model", "evaluation"))
    if not isinstance(model, Mapping) or not isinstance(evaluation, Mapping):
        raise CheckpointError(f"{run.config_file} is not the configuration of a run.")
    chosen = {
        "model": {key: value for key, value in model.items() if key != "name"},
        "prompt": settings.get("prompt"),
        "evaluation": {key: evaluation.get(key) for key in ("text_edit", "max_length", "precision")},
    }
    path = run.checkpoint("best")
    try:
        with path.open("rb") as file:
            weights = hashlib.file_digest(file, "sha256")
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror}).") from error
    weights.update(json.dumps(chosen, sort_keys=True, default=str).encode())
    return weights.hexdigest()


def save_calibration(path: Path, calibration: Calibration, fingerprint_: str) -> None:
    """Write a calibration.

    Args:
        path: File to write.
        calibration: What to write.
        fingerprint_: Fingerprint of the run that it is for.
    """
    values = {"fingerprint": fingerprint_, **dataclasses.asdict(calibration)}
    write_atomic(path, json.dumps(values, indent=2) + "\n")


def load_calibration(path: Path, run: RunFolder) -> Calibration:
    """Read a calibration, and check that it is for the weights and settings of a run.

    Raises:
        CheckpointError: The file is missing or broken, or is for another encoder.
    """
    try:
        values = read_json(path, dict[str, Any])
        made_for = as_type({"fingerprint": values.pop("fingerprint", None)}, dict[str, str])["fingerprint"]
        calibration = _checked(values)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror}).", key="calibration") from error
    except ValueError as error:
        raise CheckpointError(f"{path} is no calibration ({error}).", key="calibration") from error
    if made_for != fingerprint(run):
        raise CheckpointError(
            f"{path} was made with other weights or settings than those of {run.path}.",
            key="calibration",
            hint="Run `sts-lightning calibrate` again.",
        )
    return calibration


def _checked(values: dict[str, Any]) -> Calibration:
    """Return stored values as a calibration.

    Raises:
        ValueError: They are none.
    """
    found: Calibration = as_type(values, Calibration)
    if found.score_range is not None:
        checked_range(found.score_range)
    if not found.cosines or len(found.cosines) != len(found.scores):
        raise ValueError(f"{len(found.cosines)} cosines for {len(found.scores)} scores")
    if any(left >= right for left, right in pairwise(found.cosines)):
        raise ValueError("the cosines do not ascend")
    if not all(abs(cosine) <= MOST for cosine in found.cosines):
        raise ValueError("cosines lie outside [-1, 1]")
    if any(left > right for left, right in pairwise(found.scores)):
        raise ValueError("the scores descend")
    if found.half_width < 0 or not 0 < found.coverage < 1:
        raise ValueError("half_width is below 0, or coverage outside (0, 1)")
    if min(found.fitted, found.held_out) < 1:
        raise ValueError(f"fitted is {found.fitted} and held_out {found.held_out}; at least 1 each")
    return found
