"""Results of a run, as stored in metrics.json, and what they were made with."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Required

from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from sts_lightning.core.errors import CheckpointError, counted
from sts_lightning.core.files import as_type, read_json
from sts_lightning.core.hardware import count_cores
from sts_lightning.data.counts import TrainingCount

TrainedOn = tuple[TrainingCount | None, ...]
"""Data of the stages of a run; None where it is unknown, nothing for a model that was not trained here."""

TaskScores = TypedDict("TaskScores", {"spearman": float, "mrr@10": float, "score": float}, total=False)
"""Of the stored scores of a test task, or of dev data, those that tables show; others are free."""


class TestScores(TypedDict, total=False):
    """Scores of the test tasks as stored."""

    average: Required[float]
    tasks: Required[dict[str, TaskScores]]
    aggregate: str


class Contents(TypedDict, total=False):
    """Types of the numbers that lists, tables and reports compute with; other entries are free."""

    test: TestScores | None
    dev: TaskScores | None
    trained_on: list[TrainingCount | None]
    wall_seconds: float | None
    peak_memory_bytes: dict[str, float] | None


@dataclass(frozen=True)
class RunMetrics:
    """Results of a training run or an evaluation.

    Attributes:
        test: Scores on the test tasks, with keys ``average`` and ``tasks``; None without a test report.
        dev: Correlations times 100 on the dev pairs, or scores of the dev queries; None for an evaluation.
        details: Other entries of the file: counts of the data, versions, times.
    """

    test: Mapping[str, Any] | None
    dev: Mapping[str, Any] | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def score(self) -> float:
        """Dev score that selected the weights of a training run, or test average of an evaluation."""
        if self.dev is not None:
            return main_score(self.dev)
        assert self.test is not None  # checked when the file was read
        return float(self.test["average"])

    @property
    def content(self) -> dict[str, Any]:
        """Hashes of what the run has read, rows and the user's files; empty for one of an earlier version."""
        content: dict[str, Any] = self.details.get("content", {})
        return content

    @property
    def scored_pairs(self) -> str | None:
        """What `score` is of: a hash of the dev data, or those of the test tasks; None if unknown."""
        if self.dev is not None:
            return self.content.get("dev")
        return json.dumps(tests, sort_keys=True) if (tests := self.content.get("tests")) else None

    @property
    def tasks(self) -> Mapping[str, Mapping[str, Any]]:
        """Scores of each test task by name; empty without a test report."""
        return {} if self.test is None else self.test["tasks"]

    @property
    def entries(self) -> dict[str, Mapping[str, Any]]:
        """Scores of the dev data, as ``dev``, and of each test task, where available."""
        return {**({} if self.dev is None else {"dev": self.dev}), **self.tasks}

    @property
    def rankings(self) -> dict[str, Mapping[str, Any]]:
        """Those of `entries` that are scores of queries."""
        return {name: entry for name, entry in self.entries.items() if "queries" in entry}

    @property
    def scores(self) -> dict[str, float]:
        """Dev score, the score of each test task, their average, and the rank, where available."""
        row = {name: main_score(entry) for name, entry in self.entries.items()}
        if self.test is not None:
            row["average"] = float(self.test["average"])
        rank = self.details.get("rank")
        return row if rank is None else {**row, "rank": float(rank["average"])}

    @property
    def aggregate(self) -> str:
        """How the subsets of a task became one score."""
        return str((self.test or {}).get("aggregate", "all"))

    @property
    def trained_on(self) -> TrainedOn:
        """Data of each stage in order, the runs that the weights came from first."""
        if "trained_on" not in self.details:
            return (None,)
        return tuple(as_type(self.details["trained_on"], list[TrainingCount | None]))

    @property
    def peak_memory_gb(self) -> float | None:
        """Peak memory in GB, of the GPU if there was one; None if not measured."""
        peak = self.details.get("peak_memory_bytes") or {}
        used = peak.get("cuda") or peak.get("host")
        return None if used is None else float(used) / 1e9

    @property
    def total_seconds(self) -> float | None:
        """Duration in seconds together with the runs whose weights this one started from; None if unknown."""
        runs = [cost.get("wall_seconds") for cost in (self.details, *(self.details.get("earlier") or []))]
        return None if None in runs else sum(runs)


MAIN = ("mrr@10", "spearman", "score")
"""Names of the score of a task that tables show: of queries, scored pairs and other suites."""


def main_score(scores: Mapping[str, Any]) -> float:
    """Return of the scores on dev data, or on a test task, the one that selects weights or tables show."""
    return float(next(scores[name] for name in MAIN if name in scores))


def origin(trained_on: TrainedOn, seconds: float) -> dict[str, Any]:
    """Return what results state of how they were made: data of the training, duration and `environment`."""
    stages = [None if stage is None else dataclasses.asdict(stage) for stage in trained_on]
    return {"trained_on": stages, "wall_seconds": round(seconds, 1), **environment()}


def read_metrics(path: Path) -> RunMetrics:
    """Read the file.

    Raises:
        CheckpointError: The file is missing, broken or without scores.
    """
    try:
        values = read_json(path)
        as_type(values, Contents)
        test, dev = (values.pop(name, None) for name in ("test", "dev"))
        metrics = RunMetrics(test, dev, values)
        if test is None and dev is None:
            raise ValueError("it has neither dev nor test scores")
        for name, scores in metrics.entries.items():
            if not {*MAIN} & scores.keys():
                raise ValueError(f"{name} lacks spearman")
    except FileNotFoundError as error:
        raise CheckpointError(f"{path.parent} has no {path.name}: it is not a finished run.") from error
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise CheckpointError(f"{path} is broken: {error}.") from error
    return metrics


UNKNOWN = "unknown"
"""Value of what a run does not state."""

MODEL_SETTINGS = ("max_length", "precision", "quantization")
"""Settings that a table states of the evaluation and of the training."""


def evaluation_text(details: Mapping[str, Any]) -> str:
    """Return in words what evaluation did: the text that was read, precision and quantisation.

    Args:
        details: Further entries of the run's metrics.
    """
    text = details.get("senteval_text")
    source = "" if text is None else f"senteval_text={text}, "
    return source + in_words(details, "text_edit", *MODEL_SETTINGS)


def in_words(values: Mapping[str, Any], *keys: str) -> str:
    """Return settings as ``KEY=VALUE``; those that are not known are `UNKNOWN`."""
    shown = ((key, values.get(key, UNKNOWN)) for key in keys)
    return ", ".join(f"{key}={'no limit' if value is None else value}" for key, value in shown)


PACKAGES = "sts-lightning torch lightning transformers tokenizers peft bitsandbytes datasets scipy numpy"
"""Packages whose versions results state."""


def peak_memory() -> dict[str, int]:
    """Return the peak resident memory of the process and peak allocated memory of the GPU, in bytes."""
    import torch  # not needed by a sweep, which starts other processes

    peak = {}
    if sys.platform != "win32":
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        peak["host"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    if torch.cuda.is_initialized():  # not in a run on the CPU beside a card
        peak["cuda"] = torch.cuda.max_memory_allocated()
    return peak


def environment() -> dict[str, Any]:
    """Return versions, commit, platform and hardware, stored with the metrics of a run."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES.split():
        with contextlib.suppress(PackageNotFoundError):
            versions[package] = version(package)
    return {
        "versions": versions,
        "git_commit": _git_commit(),
        "platform": platform.platform(),
        "hardware": hardware(),
    }


def hardware(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the names of the processor, with the cores of this process, and of the GPU that it used.

    Args:
        cpuinfo: Linux's description of the processor; elsewhere Python names it.
    """
    import torch  # not needed by a sweep, which starts other processes

    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        found = re.search(r"^model name\s*: (.+)$", cpuinfo.read_text(), re.MULTILINE)
        name = found[1] if found else name
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_initialized() else ""
    return f"{name}, {counted(count_cores(), 'core')}{gpu}"


def _git_commit() -> str | None:
    """Return the commit of the code, with ``+changes`` if files differ; None outside a checkout."""
    git = partial(subprocess.check_output, text=True, stderr=subprocess.DEVNULL, cwd=Path(__file__).parent)
    try:
        # A site-packages folder may lie inside the checkout of another project.
        git(["git", "ls-files", "--error-unmatch", __file__])
        # No tag matches, so that the name is the commit.
        described = git(["git", "describe", "--always", "--exclude=*", "--abbrev=40", "--dirty=+changes"])
    except (OSError, subprocess.CalledProcessError):
        return None
    return str(described).strip()
