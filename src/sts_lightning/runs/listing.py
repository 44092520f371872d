"""All runs in a folder: what distinguishes their settings, and groups that differ in the seed alone."""

from __future__ import annotations

import os
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sts_lightning.config.trust import stage_folders
from sts_lightning.errors import CheckpointError, UserError
from sts_lightning.runs.differences import STAGE, Settings, as_json, distinguishing, flat, shown
from sts_lightning.runs.folder import RunFolder, State
from sts_lightning.runs.metrics import RunMetrics

COST = ("minutes", "GB")
"""Columns of what a run took."""


@dataclass(frozen=True)
class ListedRun:
    """A run in a list.

    Attributes:
        folder: Its folder.
        state: Its progress.
        settings: Its settings, those of earlier stages as ``stages.NAME.KEY``; empty if they cannot be read.
        metrics: Its results, if it has finished.
        problem: Why settings or results cannot be read; empty if they can.
    """

    folder: RunFolder
    state: State
    settings: Settings = field(default_factory=dict)
    metrics: RunMetrics | None = None
    problem: str = ""

    @property
    def seed(self) -> Any:
        """Random seed; None for an evaluation."""
        return self.settings.get("seed")


def find_runs(root: Path) -> list[ListedRun]:
    """Return the runs and evaluations in a folder and below it, by path.

    The stages of a run are part of it; stages that several runs share are runs of their own. Hidden folders
    are left out.

    Raises:
        CheckpointError: There is no such folder.
    """
    if not root.is_dir():
        raise CheckpointError(f"{root} is not a folder.")
    return [_read(RunFolder(path)) for path in sorted(_folders(root))]


def _folders(root: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(root):
        run = RunFolder(parent)
        folders[:] = [name for name in folders if not name.startswith(".")]  # being written
        if run.has_stages or run.config_file.name in files or run.metrics_file.name in files:
            folders.clear()
            yield Path(parent)


def _read(folder: RunFolder) -> ListedRun:
    try:
        state = folder.state
        last = folder.last_stage()
        settings = _settings(folder)
    except CheckpointError as error:
        return ListedRun(folder, "started", problem=str(error))
    if state != "finished":
        return ListedRun(folder, state, settings)
    try:
        metrics = last.metrics()
        if metrics.averaged:  # otherwise the settings are those of the first run of the average
            settings["averaged"] = list(metrics.averaged)
            settings["averaged.share"] = metrics.details["averaged"]["share"]
        return ListedRun(folder, state, settings, metrics)
    except CheckpointError as error:
        return ListedRun(folder, state, settings, problem=str(error))


def _settings(folder: RunFolder) -> dict[str, Any]:
    """Return the settings of a run by dotted key; empty until its last stage has started."""
    *earlier, last = folder.stages() or [folder]
    if not last.config_file.is_file():
        return {}
    found = _own(last)
    if not earlier:
        return found
    names = list(stage_folders(folder.stages_file))
    found["init_from"] = names[-2]
    for name, stage in zip(names, earlier, strict=False):
        for key, value in _own(stage).items() if stage.config_file.is_file() else ():
            if key != "seed" or value != found.get("seed"):
                found[f"{STAGE}{name}.{key}"] = value
    return found


def _own(folder: RunFolder) -> dict[str, Any]:
    """Return the settings of a folder without those that follow its seed, or that were not read.

    An evaluation of a run (``ckpt``) reads neither model nor prompt.
    """
    found = flat(folder.complete_settings())
    seed, unread = found.get("seed"), ("model.", "prompt.") if found.get("ckpt") else ()
    return {
        key: value
        for key, value in found.items()
        if not (key.endswith(".seed") and value == seed) and not key.startswith(unread)
    }


@dataclass(frozen=True)
class Group:
    """Runs that differ in the seed alone.

    Attributes:
        runs: The runs; more than one only if all have finished.
        settings: What distinguishes them from other groups.
    """

    runs: Sequence[ListedRun]
    settings: Mapping[str, Any]

    @property
    def state(self) -> State:
        """Progress of the runs."""
        return self.runs[0].state

    @property
    def seeds(self) -> list[Any]:
        """Their seeds."""
        return [run.seed for run in self.runs if run.seed is not None]

    def values(self, column: str) -> list[float]:
        """Return the known values in a column: a score, ``minutes`` or ``GB``."""
        found = (_value(run.metrics, column) for run in self.runs if run.metrics is not None)
        return [value for value in found if value is not None]

    def mean(self, column: str) -> float | None:
        """Return the mean over the runs; None where it is unknown."""
        values = self.values(column)
        return statistics.fmean(values) if values else None

    def deviation(self, column: str) -> float | None:
        """Return the sample standard deviation over the runs; None for fewer than two."""
        values = self.values(column)
        return statistics.stdev(values) if len(values) > 1 else None

    def cell(self, column: str) -> str:
        """Return the mean in a column, and the deviation of a score; an empty text where it is unknown."""
        mean, deviation = self.mean(column), self.deviation(column)
        if mean is None:
            return ""
        digits = 2 if column not in COST else 1
        spread = f" ± {deviation:.{digits}f}" if deviation is not None and column not in COST else ""
        return f"{mean:.{digits}f}{spread}"

    def name(self, root: Path) -> str:
        """Return the path of the first run below a folder, and the number of the others."""
        path = self.runs[0].folder.path
        name = str(path.relative_to(root)) if path != root else str(path)
        return f"{name} +{len(self.runs) - 1}" if len(self.runs) > 1 else name

    @property
    def settings_text(self) -> str:
        """What distinguishes it, as written on the command line."""
        return " ".join(f"{key}={shown(value)}" for key, value in self.settings.items() if value != {})


def _value(metrics: RunMetrics, column: str) -> float | None:
    if column == "minutes":
        return None if metrics.total_seconds is None else metrics.total_seconds / 60
    if column == "GB":
        return metrics.peak_memory_gb
    return metrics.scores.get(column)


def group_seeds(runs: Sequence[ListedRun], apart: bool = False) -> list[Group]:
    """Group finished runs that differ in the seed alone; runs that start from such runs count as the same.

    Args:
        runs: The runs.
        apart: Whether each run remains a group of its own.
    """
    known = {str(run.folder.path.resolve()): run.settings for run in runs}
    places: dict[str, list[ListedRun]] = defaultdict(list)
    for index, run in enumerate(runs):
        alone = apart or run.metrics is None or run.seed is None
        places[str(index) if alone else as_json(_without_seed(run.settings, known))].append(run)
    groups = list(places.values())
    compared = [
        {key: value for key, value in group[0].settings.items() if len(group) == 1 or not _varies(group, key)}
        for group in groups
    ]
    if not apart:
        for settings in compared:
            settings.pop("seed", None)
    return [Group(group, settings) for group, settings in zip(groups, _apart(groups, compared), strict=True)]


def _apart(groups: Sequence[Sequence[ListedRun]], compared: Sequence[Settings]) -> list[dict[str, Any]]:
    """Return what distinguishes groups: their models, and what else among trainings or among evaluations."""
    models = distinguishing([{key: own[key] for key in own if key.startswith("model.")} for own in compared])
    rest = [{key: own[key] for key in own if not key.startswith("model.")} for own in compared]
    found: list[dict[str, Any]] = [{} for _ in groups]
    for evaluations in (False, True):
        places = [at for at, group in enumerate(groups) if (group[0].seed is None) == evaluations]
        for at, own in zip(places, distinguishing([rest[at] for at in places]), strict=True):
            found[at] = {**models[at], **own}
    return found


def _varies(runs: Sequence[ListedRun], key: str) -> bool:
    return len({as_json(run.settings.get(key)) for run in runs}) > 1


def _without_seed(settings: Settings, known: Mapping[str, Settings], depth: int = 3) -> dict[str, Any]:
    same = {key: value for key, value in settings.items() if key != "seed"}
    start = settings.get("init_from")
    before = known.get(str(Path(start).resolve())) if isinstance(start, str) else None
    if before is not None and depth:
        same["init_from"] = _without_seed(before, known, depth - 1)
    return same


def sort_column(column: str | None, scores: Sequence[str]) -> str:
    """Return the column by which a list is sorted.

    Args:
        column: A score, ``minutes`` or ``GB``; None for the average, or else the dev score.
        scores: Names of the scores.

    Raises:
        UserError: There is no such column.
    """
    known = [*scores, *COST]
    if column is not None and column not in known:
        raise UserError(f"--sort {column}: no such column; there are {', '.join(known)}.")
    return column or next((name for name in ("average", "dev") if name in scores), "dev")


def sort_groups(groups: Sequence[Group], by: str) -> list[Group]:
    """Return groups with the highest score or the lowest cost first, those without a value last.

    Args:
        groups: Groups.
        by: Column.
    """
    sign = 1 if by in COST else -1

    def place(group: Group) -> tuple[bool, float]:
        mean = group.mean(by)
        return mean is None, 0.0 if mean is None else sign * mean

    return sorted(groups, key=place)
