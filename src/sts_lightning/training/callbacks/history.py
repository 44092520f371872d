"""CSV logger with one row per step, which keeps its rows when a run resumes."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
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
        run_folder: The run folder.
    """

    def __init__(self, run_folder: str) -> None:
        super().__init__()
        self.path = RunFolder(run_folder).history_file
        self.rows: dict[int, dict[str, Any]] = {}
        self._provisional: dict[int, dict[str, float]] = {}
        self._changed: set[int] = set()
        self._columns: list[str] = []  # of the file, once this process has written it
        self._last, self._start, self._size = 0, 0, 0  # step of its last row, where that starts, its length
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
        self._changed.add(number)
        self.rows.setdefault(number, {"step": number}).update(metrics)

    @rank_zero_only
    def log_provisional(self, metrics: dict[str, float], step: int) -> None:
        """Set metrics that the row of a step has until `log_metrics` is called for that step."""
        self._provisional[step] = metrics
        self._changed.add(step)

    @rank_zero_only
    def save(self) -> None:
        """Write what is new, at most every two seconds."""
        if time.monotonic() - self._written > FLUSH_SECONDS:
            self._write()

    @rank_zero_only
    def flush(self) -> None:
        """Write what is new now."""
        self._write()

    def finalize(self, status: str) -> None:
        """Write the file."""
        self.flush()

    def _write(self) -> None:
        steps = sorted(self._changed)
        if steps or (self.rows and not self._columns):
            if not self._extend(steps):
                self._rewrite()
            self._changed.clear()
        self._written = time.monotonic()

    def _extend(self, steps: Sequence[int]) -> bool:
        """Write the rows after the last one of the file, and that one if it has changed.

        A full disk leaves a row without an end, which `read_history` leaves out.

        Returns:
            Whether these are all that has changed.
        """
        rows = [self._row(step) for step in steps]
        if not self._columns or steps[0] < self._last or not {*chain(*rows)} <= {*self._columns}:
            return False
        start = self._start if steps[0] == self._last else self._size
        lines = self._lines(rows)
        size = start + sum(map(len, lines))
        # A file that shrinks would for a moment have the end of an old row.
        if size < self._size or not self.path.is_file() or self.path.stat().st_size != self._size:
            return False
        with self.path.open("r+b") as file:
            file.seek(start)
            file.write(b"".join(lines))
        self._last, self._start, self._size = steps[-1], size - len(lines[-1]), size
        return True

    def _rewrite(self) -> None:
        steps = sorted({*self.rows, *self._provisional})
        rows = [self._row(step) for step in steps]
        self._columns = list(dict.fromkeys(chain(*map(self._row, [*self.rows, *self._provisional]))))
        lines = self._lines([dict(zip(self._columns, self._columns, strict=True)), *rows])
        write_atomic(self.path, b"".join(lines))
        self._size = sum(map(len, lines))
        self._last, self._start = steps[-1], self._size - len(lines[-1])

    def _row(self, step: int) -> dict[str, Any]:
        return {"step": step, **self._provisional.get(step, {}), **self.rows.get(step, {})}

    def _lines(self, rows: Iterable[Mapping[str, Any]]) -> list[bytes]:
        text = io.StringIO()
        csv.DictWriter(text, self._columns, lineterminator="\n").writerows(rows)
        return text.getvalue().encode().splitlines(keepends=True)
