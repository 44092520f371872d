"""The notes under a table on how its rows were trained, with which seeds, and how they were evaluated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # it imports this module
    from sts_lightning.reproduce.collect import Collected

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


def setting_notes(collected: Collected) -> list[str]:
    """Return the notes of a table; nothing if nothing has run."""
    seeds = {system.name: [", ".join(dict.fromkeys(system.seeds))] for system in collected.systems}
    found = (
        ("Dev and test sentences", {system.name: system.texts for system in collected.systems}),
        ("Training", {system.name: system.trained for system in collected.systems}),
        ("Seeds", {name: texts for name, texts in seeds.items() if texts != [""]}),
    )
    return [note for what, texts in found if (note := _note(what, texts)) is not None]


def _length(length: object) -> object:
    return "no limit" if length is None else length


def _note(what: str, texts: Mapping[str, Sequence[str]]) -> str | None:
    """Return one sentence on the settings of all rows, those that differ with the names of their rows."""
    rows: dict[str, list[str]] = {}
    for name, of_runs in texts.items():
        for text in dict.fromkeys(of_runs):
            rows.setdefault(text, []).append(name)
    if not rows:
        return None
    if len(rows) == 1:
        return f"{what}: {next(iter(rows))}."
    parts = [f"{text} ({'; '.join(names)})" for text, names in rows.items()]
    verb = "differ" if what.endswith("s") else "differs"
    return f"{what} {verb} between rows: {', or '.join(parts)}."
