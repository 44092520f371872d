"""The note under a table that says how its dev and test sentences were read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # it imports this module
    from sts_lightning.reproduce.collect import Collected

FORMER = {"senteval_text": "raw", "text_edit": "none", "max_length": "that of training"}
"""Values of runs of versions that did not record these entries of the metrics."""


def evaluation_text(details: Mapping[str, Any]) -> str:
    """Return the settings of one run in words.

    Args:
        details: Further entries of the run's metrics.
    """
    found = {key: details.get(key, former) for key, former in FORMER.items()}
    length = "no limit" if found["max_length"] is None else found["max_length"]
    text = "" if found["senteval_text"] is None else f"senteval_text={found['senteval_text']}, "
    return f"{text}text_edit={found['text_edit']}, max_length={length}"


def text_note(collected: Collected) -> str | None:
    """Return the note of a table, None if nothing has run."""
    rows: dict[str, list[str]] = {}
    for system in collected.systems:
        for text in dict.fromkeys(system.texts):
            rows.setdefault(text, []).append(system.name)
    if not rows:
        return None
    if len(rows) == 1:
        return f"Dev and test sentences: {next(iter(rows))}."
    parts = [f"{text} ({'; '.join(names)})" for text, names in rows.items()]
    return f"Dev and test sentences differ between rows: {', or '.join(parts)}."
