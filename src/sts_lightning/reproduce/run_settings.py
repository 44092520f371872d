"""How a run was trained, with which seed, what selected its weights, and how it was evaluated, in words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

FORMER = {"senteval_text": "raw", "text_edit": "none", "max_length": "that of training"}
"""Values of runs of versions that did not record these entries of the metrics."""

UNKNOWN = "unknown"
"""Value of what a run of an earlier version does not state."""

UNTRAINED = "not trained"

DEV_SETS = {"stsb": "STS-B dev", "stsb_clean": "STS-B dev without test pairs", "suite": "dev suite"}
"""Values of `DevSet` in words."""


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


def selection_text(settings: Mapping[str, Any]) -> str:
    """Return in words the dev pairs that selected the weights of a run.

    Args:
        settings: Configuration of the run, as plain values.
    """
    data = settings.get("data") or {}
    if data.get("dev_path") is not None:
        return Path(data["dev_path"]).name
    if data.get("dev_split") is not None:
        return f"{data.get('path')}, {data['dev_split']}"
    if data.get("dev") is not None:
        return DEV_SETS.get(data["dev"], str(data["dev"]))
    if data.get("dev_fraction") is not None:
        return f"{100 * data['dev_fraction']:g} % of the training pairs"
    return f"dev pairs of {str(data.get('_target_', UNKNOWN)).rpartition('.')[2]}"


def _length(length: object) -> object:
    return "no limit" if length is None else length
