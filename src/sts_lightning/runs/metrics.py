"""Results of a run, as stored in metrics.json."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sts_lightning.errors import CheckpointError
from sts_lightning.files import write_atomic
from sts_lightning.published import TrainingCount

TrainedOn = tuple[TrainingCount | None, ...]
"""Data of the stages of a run; None where it is unknown, nothing for a model that was not trained here."""

BROKEN = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    AssertionError,
    RecursionError,  # nested too deeply
    OverflowError,  # an integer of hundreds of digits
)
"""Errors of reading a file that holds something else."""


@dataclass(frozen=True)
class RunMetrics:
    """Results of a training run or an evaluation.

    Attributes:
        test: Scores on the test tasks, with keys ``average`` and ``tasks``; None without a test report.
        dev: Pearson and Spearman correlations times 100 on the dev pairs; None for an evaluation.
        details: Other entries of the file: counts of the data, versions, times.
    """

    test: Mapping[str, Any] | None
    dev: Mapping[str, Any] | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def score(self) -> float:
        """Dev Spearman of a training run, or test average of an evaluation."""
        if self.dev is not None:
            return float(self.dev["spearman"])
        assert self.test is not None  # checked when the file was read
        return float(self.test["average"])

    @property
    def scores(self) -> dict[str, float]:
        """Dev Spearman, the score of each test task, their average, and the rank, where available."""
        row = {} if self.dev is None else {"dev": float(self.dev["spearman"])}
        if self.test is not None:
            for name, task in self.test["tasks"].items():
                row[name] = float(task["spearman" if "spearman" in task else "score"])
            row["average"] = float(self.test["average"])
        rank = self.details.get("rank")
        return row if rank is None else {**row, "rank": float(rank["average"])}

    @property
    def trained_on(self) -> TrainedOn:
        """Data of each stage in order, the runs that the weights came from first."""
        if "trained_on" not in self.details:
            return (None,)
        stages = self.details["trained_on"]
        return tuple(None if stage is None else TrainingCount.read(stage) for stage in stages)

    @property
    def averaged(self) -> tuple[str, ...]:
        """Folders of the runs whose weights were averaged; none for a run that was trained."""
        parents = (self.details.get("soup") or {}).get("parents") or []
        return tuple(str(parent["run"]) for parent in parents if parent["averaged"])

    @property
    def peak_memory_gb(self) -> float | None:
        """Peak memory in GB, of the GPU if there was one; None if not measured."""
        peak = self.details.get("peak_memory_bytes") or {}
        used = peak.get("cuda") or peak.get("host")
        return None if used is None else float(used) / 1e9

    @property
    def wall_seconds(self) -> float | None:
        """Duration of the run in seconds."""
        seconds = self.details.get("wall_seconds")
        return None if seconds is None else float(seconds)

    @property
    def total_seconds(self) -> float | None:
        """Duration in seconds together with the runs whose weights this one started from; None if unknown."""
        own = [self.wall_seconds, *(cost["wall_seconds"] for cost in self.details.get("earlier") or [])]
        known = [seconds for seconds in own if seconds is not None]
        return sum(known) if len(known) == len(own) else None

    def as_dict(self) -> dict[str, Any]:
        """Return the contents of the file."""
        own = {name: value for name, value in dataclasses.asdict(self).items() if name != "details"}
        if self.dev is None:
            del own["dev"]
        return {**own, **self.details}


def as_plain(stages: TrainedOn) -> list[dict[str, Any] | None]:
    """Return the data of stages as stored in the file."""
    return [None if stage is None else dataclasses.asdict(stage) for stage in stages]


def write_metrics(path: Path, metrics: RunMetrics) -> None:
    """Write the file atomically."""
    write_atomic(path, json.dumps(metrics.as_dict(), indent=2) + "\n")


def read_metrics(path: Path) -> RunMetrics:
    """Read the file, including those of earlier versions.

    Raises:
        CheckpointError: The file is missing, broken or without scores.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        details = {name: value for name, value in values.items() if name not in ("dev", "test")}
        metrics = RunMetrics(values.get("test"), values.get("dev"), details)
        _ = (metrics.score, metrics.scores, metrics.peak_memory_gb, metrics.total_seconds)
        _ = (metrics.trained_on, metrics.averaged)
    except FileNotFoundError as error:
        raise CheckpointError(f"{path.parent} has no {path.name}: it is not a finished run.") from error
    except BROKEN as error:
        raise CheckpointError(f"{path} is broken ({type(error).__name__}: {error}).") from error
    return metrics
