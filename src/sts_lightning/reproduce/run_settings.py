"""How a run was trained, with which seed, and how it was evaluated, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FORMER = {"senteval_text": "raw", "text_edit": "none", "max_length": "that of training"}
"""Values of runs of versions that did not record these entries of the metrics."""

UNKNOWN = "unknown"
"""Value of what a run of an earlier version does not state."""

UNTRAINED = "not trained"


def evaluation_text(details: Mapping[str, Any]) -> str:
    """Return in words what evaluation did: the text that was read, precision and quantisation.

    Args:
        details: Further entries of the run's metrics.
    """
    found = {key: details.get(key, former) for key, former in FORMER.items()}
    text = "" if found["senteval_text"] is None else f"senteval_text={found['senteval_text']}, "
    numbers = ", ".join(f"{key}={details.get(key, UNKNOWN)}" for key in ("precision", "quantization"))
    return f"{text}text_edit={found['text_edit']}, max_length={_length(found['max_length'])}, {numbers}"


def training_text(details: Mapping[str, Any]) -> str:
    """Return in words how the evaluated weights were trained: length, precision and quantisation.

    Args:
        details: Further entries of the run's metrics.
    """
    training = details.get("training", {})
    if training is None:
        return UNTRAINED
    found = {key: training.get(key, UNKNOWN) for key in ("max_length", "precision", "quantization")}
    return ", ".join(f"{key}={value}" for key, value in found.items())


def training_seed(details: Mapping[str, Any]) -> str:
    """Return the seed of the run, or of the run whose weights were evaluated.

    Args:
        details: Further entries of the run's metrics.
    """
    if details.get("training", {}) is None:
        return UNTRAINED
    return str(details.get("seed", UNKNOWN))


def _length(length: object) -> object:
    return "no limit" if length is None else length
