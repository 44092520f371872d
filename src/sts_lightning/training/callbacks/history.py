"""CSV logger with one row per step, which keeps its rows when a run resumes."""

from __future__ import annotations

import csv
import io
import time
from typing import Any

from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.loggers import Logger

from sts_lightning.core.files import write_atomic
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.history import read_history

FLUSH_SECONDS = 2.0


class HistoryLogger(Logger):
    """Writes the history of a run: one row per logged step, training and dev metrics side by side.

    Lightning's own CSVLogger deletes the rows of the first part of a resumed run. This one keeps them,
    up to the step from which the run resumes. `RunRecorder` decides when a row must be on disk.

    Args:
        save_dir: The run folder.
    """

    def __init__(self, save_dir: str) -> None:
        super().__init__()
        self.path = RunFolder(save_dir).history_file
        self.rows: dict[int, dict[str, Any]] = {}
        self._provisional: dict[int, dict[str, float]] = {}
        self._written = 0.0

    @property
    def name(self) -> str:
        """Name of the logger, which Lightning requires."""
        return "history"

    @property
    def version(self) -> str:
        """Empty version; there is one file per run."""
        return ""

    @rank_zero_only
    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Ignore hyper-parameters; they are in the configuration of the run folder."""

    @rank_zero_only
    def continue_from(self, step: int) -> None:
        """Load the rows of an earlier part of the run, up to ``step``."""
        self.rows = {row["step"]: row for row in read_history(self.path) if row["step"] <= step}

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Add metrics to the row of a step; they replace provisional ones."""
        number = step or 0
        self._provisional.pop(number, None)
        self.rows.setdefault(number, {"step": number}).update(metrics)

    @rank_zero_only
    def log_provisional(self, metrics: dict[str, float], step: int) -> None:
        """Set metrics that the row of a step has until `log_metrics` is called for that step."""
        self._provisional[step] = metrics

    @rank_zero_only
    def save(self) -> None:
        """Write the file, at most every two seconds."""
        if time.monotonic() - self._written > FLUSH_SECONDS:
            self._write()

    @rank_zero_only
    def flush(self) -> None:
        """Write the file now."""
        if self.rows or self._provisional:
            self._write()

    def finalize(self, status: str) -> None:
        """Write the file."""
        self.flush()

    def _write(self) -> None:
        rows = dict(self.rows)
        for step, metrics in self._provisional.items():
            rows[step] = {"step": step, **metrics, **rows.get(step, {})}
        columns = list(dict.fromkeys(column for row in rows.values() for column in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[step] for step in sorted(rows))
        write_atomic(self.path, text.getvalue())
        self._written = time.monotonic()
