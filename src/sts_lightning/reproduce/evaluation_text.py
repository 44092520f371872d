"""How a run read its dev and test sentences, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
