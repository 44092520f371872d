"""Lists of runs in which none may stand twice."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sts_lightning.errors import ConfigError
from sts_lightning.runs.folder import RunFolder


def check_distinct(runs: Sequence[Path], key: str = "runs") -> None:
    """Reject a list with a run that would count twice, by whatever path, and also as its last stage.

    Args:
        runs: Run folders as the user named them.
        key: What the list is called.

    Raises:
        ConfigError: A run is named twice.
    """
    found: dict[str, Path] = {}
    for run in runs:
        place = os.path.realpath(RunFolder(run).last_stage().path)
        if place in found:
            same = "" if run == found[place] else f", as {found[place]} and {run}"
            raise ConfigError(f"{key}: {run} is named twice{same}, and would count as often.", key=key)
        found[place] = run
