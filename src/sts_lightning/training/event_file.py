"""TensorBoard logger that keeps a run in one event file, also when the run resumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.loggers import TensorBoardLogger

FINAL, PLOTS = "final/", "plots/"
"""Beginnings of the names of final scores and of plots."""

HP_METRIC = "hp_metric"
"""Score that Lightning's logger declares for TensorBoard's table of runs; -1 until the run has finished."""


class EventFileLogger(TensorBoardLogger):
    """Lightning's TensorBoardLogger with one event file for each run.

    Lightning's own closes its file after each evaluation and each fit, and begins another one for what is
    logged later; a resumed run leaves the rows of its first part beside those that it repeats.
    """

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Write the file; after an error, close it."""
        if self._experiment is None:
            return
        self._experiment.flush()
        if status == "success":
            self.save()
        else:
            self.close()

    @rank_zero_only
    def close(self) -> None:
        """Close the file."""
        if self._experiment is not None:
            self._experiment.close()
            self._experiment = None

    @rank_zero_only
    def continue_from(self, step: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Move the events of an earlier part of the run, up to a step, to one new file.

        Args:
            step: Step from which the run resumes.
            rows: Rows of the history up to that step, for those that a killed process did not write.
        """
        from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

        former = sorted(Path(self.log_dir).glob("events.out.tfevents.*"))
        writer = self.experiment._get_file_writer()
        known: set[tuple[str, int]] = set()
        for path in former:
            for event in LegacyEventFileLoader(str(path)).Load():
                tags = [value.tag for value in event.summary.value]
                keys = {(tag, event.step) for tag in tags}
                late = any(
                    tag.startswith((FINAL, PLOTS)) or (tag == HP_METRIC and event.step) for tag in tags
                )
                if not tags or event.step > step or late or keys <= known:
                    continue
                known |= keys
                writer.event_writer.add_event(event)
        for row in rows:
            lost = {tag: value for tag, value in row.items() if (tag, row["step"]) not in known}
            self.log_metrics({tag: value for tag, value in lost.items() if tag != "step"}, row["step"])
        writer.flush()
        for path in former:
            path.unlink()
