"""All runs in a folder: what distinguishes their settings, and groups that differ in the seed alone."""

from __future__ import annotations

import hashlib
import json
import math
import os
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table

from sts_lightning.config.check import format_value
from sts_lightning.config.identity import RESULT, SHOWN, leaves, select
from sts_lightning.core.errors import CheckpointError, UserError, counted
from sts_lightning.core.files import write_atomic
from sts_lightning.data.sources import short_names
from sts_lightning.runs.folder import RunFolder, State, check_distinct
from sts_lightning.runs.metrics import UNKNOWN, RunMetrics, evaluation_text

Settings = Mapping[str, Any]
"""Values by dotted key."""

COST = ("minutes", "GB")
"""Columns of what a run took."""


@dataclass
class ListedRun:
    """A run in a list.

    Attributes:
        folder: Its folder.
        state: Its progress.
        settings: Its settings; empty if they cannot be read.
        metrics: Its results, if it has finished.
        problem: Why settings or results cannot be read; empty if they can.
    """

    folder: RunFolder
    state: State = "started"
    settings: dict[str, Any] = field(default_factory=dict)
    metrics: RunMetrics | None = None
    problem: str = ""

    @property
    def content(self) -> str:
        """Short hash of the rows that it was trained and scored on; empty if that is not known."""
        content = {} if self.metrics is None else self.metrics.content
        rows = {key: value for key, value in content.items() if key != "files"}
        return hashlib.sha256(_as_json(rows).encode()).hexdigest()[:8] if rows else ""

    def value(self, column: str) -> float | None:
        """Return a score, ``minutes`` or ``GB``; None where it is unknown."""
        if self.metrics is None:
            return None
        seconds = self.metrics.total_seconds
        cost = {"minutes": None if seconds is None else seconds / 60, "GB": self.metrics.peak_memory_gb}
        return cost[column] if column in cost else self.metrics.scores.get(column)


def find_runs(root: Path) -> list[ListedRun]:
    """Return the runs and evaluations in a folder and below it, by path; hidden folders are left out."""
    return [read_run(RunFolder(path)) for path in sorted(_folders(root))]


def _folders(root: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(root):
        run = RunFolder(parent)
        folders[:] = [name for name in folders if not name.startswith(".")]  # being written
        if run.config_file.name in files or run.metrics_file.name in files:
            folders.clear()
            yield Path(parent)


def read_run(folder: RunFolder) -> ListedRun:
    """Read a run or an evaluation, which need not have started."""
    run = ListedRun(folder)
    try:
        run.state = folder.state
        run.settings = _settings(folder)
        run.metrics = folder.metrics() if run.state == "finished" else None
    except CheckpointError as error:
        run.problem = str(error)
    if run.metrics is not None and "averaged" in run.metrics.details:  # else as those of its first run
        averaged = run.metrics.details["averaged"]
        run.settings |= {"averaged": averaged["runs"], "averaged.share": averaged["share"]}
    return run


def _settings(folder: RunFolder) -> dict[str, Any]:
    """Return the settings of a run without those that follow its seed, or that were not read; by dotted key.

    An evaluation of a run (``ckpt``) reads neither model nor prompt.
    """
    if not folder.config_file.is_file():
        return {}
    settings = select(leaves(folder.settings()), SHOWN)
    seed, unread = settings.get("seed"), ("model.", "prompt.") if settings.get("ckpt") else ()

    def follows(key: str) -> bool:
        own_split = f"{key.removesuffix('seed')}dev_fraction" in settings
        return key.endswith(".seed") and settings[key] == seed and not own_split

    return {key: value for key, value in settings.items() if not follows(key) and not key.startswith(unread)}


@dataclass(frozen=True)
class Group:
    """Runs that differ in the seed alone.

    Attributes:
        runs: The runs; more than one only if all have finished.
        settings: What distinguishes them from other groups.
    """

    runs: Sequence[ListedRun]
    settings: Settings

    @property
    def seeds(self) -> list[Any]:
        """Their seeds."""
        return [run.settings["seed"] for run in self.runs if "seed" in run.settings]

    def _values(self, column: str) -> list[float]:
        return [value for run in self.runs if (value := run.value(column)) is not None]

    def mean(self, column: str) -> float | None:
        """Return the mean over the runs; None where it is unknown."""
        values = self._values(column)
        return statistics.fmean(values) if values else None

    def deviation(self, column: str) -> float | None:
        """Return the sample standard deviation over the runs; None for fewer than two."""
        values = self._values(column)
        return statistics.stdev(values) if len(values) > 1 else None

    def cell(self, column: str) -> str:
        """Return the mean in a column, and the deviation of a score."""
        mean, deviation = self.mean(column), self.deviation(column)
        if mean is None:
            return "-"
        if column in COST:
            return f"{mean:.1f}"
        return f"{mean:.2f}" if deviation is None else f"{mean:.2f} ± {deviation:.2f}"

    def name(self, root: Path) -> str:
        """Return the path of the first run below a folder, and the number of the others."""
        path = self.runs[0].folder.path
        name = str(path.relative_to(root)) if path != root else str(path)
        return f"{name} +{len(self.runs) - 1}" if len(self.runs) > 1 else name


def group_seeds(runs: Sequence[ListedRun]) -> list[Group]:
    """Group finished runs that differ in the seed alone; runs that start from such runs count as the same.

    Settings that leave the result as it is may differ (`RESULT`). The runs of a group were trained and
    scored on the same rows; where groups differ in these alone, their settings have a ``content``.
    """
    keys = []
    contents: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        alone = run.metrics is None or "seed" not in run.settings  # unfinished, or an evaluation
        keys.append(str(run.folder.path) if alone else _as_json(_without_seed(run.folder, run.settings)))
        contents[keys[-1]].add(run.content)
    groups: dict[object, list[ListedRun]] = defaultdict(list)
    for run, key in zip(runs, keys, strict=True):
        if len(contents[key]) > 1:
            run.settings["content"] = run.content or UNKNOWN
        groups[key, run.content].append(run)
    common = [
        {
            name: value
            for name, value in group[0].settings.items()
            if name != "seed" and all(run.settings.get(name) == value for run in group)
        }
        for group in groups.values()
    ]
    distinct = distinguishing(common)
    return [Group(group, settings) for group, settings in zip(groups.values(), distinct, strict=True)]


def _without_seed(folder: RunFolder, settings: Settings) -> dict[str, Any]:
    """Return what makes a run besides its seed: of the run that it starts from the same, not its folder."""
    same = {key: value for key, value in select(settings, RESULT).items() if key != "seed"}
    if isinstance(name := settings.get("init_from"), str):
        with suppress(CheckpointError):
            start = folder.start(name)
            if before := _settings(start):
                same["init_from"] = _without_seed(start, before)
    return same


def distinguishing(runs: Sequence[Settings]) -> list[dict[str, Any]]:
    """Return for each of several runs the settings in which it differs from others.

    A group of another class, such as a loss, is named by its class. Its settings are only compared with those
    of groups of the same class. Of trainings and evaluations, only the models are compared with each other.
    """
    values: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for key in {key for settings in runs for key in settings}:
        for settings in runs:
            values[_compared_among(settings, key)].add(_as_json(settings.get(key, "absent")))
    return [
        {
            key.removesuffix("._target_"): value.rpartition(".")[2] if key.endswith("_target_") else value
            for key, value in settings.items()
            if len(values[_compared_among(settings, key)]) > 1
        }
        for settings in runs
    ]


def _compared_among(settings: Settings, key: str) -> tuple[str, ...]:
    """Return a key, whether it is of an evaluation, and the classes of its groups."""
    names, evaluation = key.split("."), "suite" in settings and not key.startswith("model.")
    targets = [".".join([*names[:count], "_target_"]) for count in range(1, len(names))]
    classes = [str(settings.get(target)) for target in targets if target != key]
    return key, str(evaluation), *classes


def _as_json(value: Any) -> str:
    """Return a value as text that is equal for equal values."""
    return json.dumps(value, sort_keys=True, default=str)


def sort_groups(groups: Sequence[Group], column: str | None, scores: Sequence[str]) -> list[Group]:
    """Return groups with the highest score or the lowest cost first, those without a value last.

    Args:
        groups: The groups.
        column: A score, ``minutes`` or ``GB``; None for the average, or else the dev score.
        scores: Names of the scores.

    Raises:
        UserError: There is no such column.
    """
    by = column or ("average" if "average" in scores else "dev")
    if column and by not in (known := [*scores, *COST]):
        raise UserError(f"--sort {by}: no such column; there are {', '.join(known)}.")
    sign = 1 if by in COST else -1
    return sorted(groups, key=lambda group: math.inf if (mean := group.mean(by)) is None else sign * mean)


def best_on_dev(runs: Sequence[ListedRun]) -> ListedRun:
    """Return the run with the best dev score.

    Raises:
        UserError: None has one, or they are of different dev pairs.
    """
    scored = [(score, run) for run in runs if (score := run.value("dev")) is not None]
    if not scored:
        raise UserError("no run has finished with a dev score.")
    dev = {str(run.folder.path): run.metrics.content.get("dev") for _, run in scored if run.metrics}
    _check_same("pairs", dev, "Name a folder of runs that share a dev split.")
    return max(scored, key=lambda pair: pair[0])[1]


def _check_same(what: str, stated: Mapping[str, object], hint: str) -> None:
    """Reject scores that cannot be compared.

    Args:
        what: What has to be the same.
        stated: That of each run, by its name; None if it is not known.
        hint: What to do instead.
    """
    known = [(name, value) for name, value in stated.items() if value is not None]
    for name, value in known:
        if value != known[0][1]:
            raise UserError(f"{known[0][0]} and {name} have scores of different {what}.", hint=hint)


def print_groups(groups: Sequence[Group], scores: Sequence[str], folder: Path) -> None:
    """Print a row for each group."""
    main = [name for name in ("dev", "average", "rank") if name in scores]
    number = sum(len(group.runs) for group in groups)
    table = Table(title=f"{counted(number, 'run')} in {folder}", title_justify="left")
    for heading in ("run", "settings", "state", "seeds"):
        table.add_column(heading, overflow="fold")
    for heading in (*main, *COST):
        table.add_column(heading, justify="right", no_wrap=True)
    for group in groups:
        settings = " ".join(f"{key}={format_value(value)}" for key, value in group.settings.items())
        row = [group.name(folder), settings, group.runs[0].state, " ".join(map(str, group.seeds))]
        table.add_row(*row, *(group.cell(name) for name in (*main, *COST)))
    width = None if Console().is_terminal else 160
    Console(width=width, markup=False, emoji=False).print(table)  # settings contain brackets


def write_csv(path: Path, groups: Sequence[Group], scores: Sequence[str]) -> None:
    """Write a row for each group, with all that distinguishes it, means and deviations."""
    columns, about = [*scores, *COST], []
    for group in groups:
        first, seeds = group.runs[0], " ".join(map(str, group.seeds))
        about.append(
            {"run": first.folder.path, "runs": len(group.runs), "state": first.state, "seeds": seeds}
        )
    means = pd.DataFrame([map(group.mean, columns) for group in groups], columns=columns)
    deviations = pd.DataFrame([map(group.deviation, columns) for group in groups], columns=columns)
    settings = pd.DataFrame([group.settings for group in groups], dtype=object)
    frames = [pd.DataFrame(about), settings, means, deviations.add_suffix(" std")]
    write_atomic(path, pd.concat(frames, axis=1).to_csv(index=False))


def mean_scores(folders: Sequence[Path]) -> dict[str, dict[str, float]]:
    """Return the scores of runs by name, then their mean and sample standard deviation.

    Raises:
        UserError: There are fewer than two, or they were not evaluated alike.
    """
    if len(folders) < 2:
        raise UserError("name at least two run folders.")
    check_distinct(folders)
    names = short_names(map(str, folders))
    names |= {path: str(Path(path).resolve()) for path, name in names.items() if name in ("mean", "std")}
    runs = {names[str(folder)]: RunFolder(folder).metrics() for folder in folders}
    rows = {name: run.scores for name, run in runs.items()}
    hint = "Evaluate them alike with eval.py."
    _check_same("tasks", {name: row.keys() for name, row in rows.items()}, hint)
    for kind in ("dev", "tests"):
        _check_same(f"{kind} pairs", {name: run.content.get(kind) for name, run in runs.items()}, hint)
    how = {name: f"aggregate={run.aggregate}, {evaluation_text(run.details)}" for name, run in runs.items()}
    if len(set(how.values())) > 1:
        ways = "; ".join(f"{name}: {way}" for name, way in how.items())
        raise UserError(f"the runs were evaluated differently ({ways}).", hint=hint)
    frame = pd.DataFrame(rows).T
    return {**rows, "mean": frame.mean().to_dict(), "std": frame.std().to_dict()}
