"""All runs in a folder: what distinguishes their settings, and groups that differ in the seed alone."""

from __future__ import annotations

import csv
import hashlib
import json
import logging
import math
import os
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from rich.console import Console
from rich.table import Table

from sts_lightning.config.check import shown
from sts_lightning.config.identity import RESULT, SHOWN, leaves, select
from sts_lightning.core.errors import CheckpointError, UserError, counted
from sts_lightning.core.files import replacing
from sts_lightning.data.files import short_names
from sts_lightning.runs.folder import RunFolder, State, check_distinct
from sts_lightning.runs.metrics import UNKNOWN, RunMetrics, evaluation_text

log = logging.getLogger(__name__)

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
    def seed(self) -> Any:
        """Random seed; None for an evaluation."""
        return self.settings.get("seed")

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
    def state(self) -> State:
        """Progress of the runs."""
        return self.runs[0].state

    @property
    def seeds(self) -> list[Any]:
        """Their seeds."""
        return [run.seed for run in self.runs if run.seed is not None]

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


def group_seeds(runs: Sequence[ListedRun], apart: bool = False) -> list[Group]:
    """Group finished runs that differ in the seed alone; runs that start from such runs count as the same.

    Settings that leave the result as it is may differ (`RESULT`). The runs of a group were trained and
    scored on the same rows; where groups differ in these alone, their settings have a ``content``.

    Args:
        runs: The runs.
        apart: Whether each run remains a separate group.
    """
    keys = []
    contents: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        alone = run.metrics is None or run.seed is None
        keys.append(str(run.folder.path) if alone else _as_json(_without_seed(run.folder, run.settings)))
        contents[keys[-1]] |= {run.content} - {""}
    groups: dict[object, list[ListedRun]] = defaultdict(list)
    common: dict[object, Settings] = {}
    for run, key in zip(runs, keys, strict=True):
        several = len(contents[key]) > 1  # if there is one, it may be that of all
        settings = run.settings | ({"content": run.content or UNKNOWN} if several else {})
        group = run.folder if apart else (key, settings.get("content"))
        groups[group].append(run)
        common[group] = {
            name: value
            for name, value in common.get(group, settings).items()
            if settings.get(name) == value and (apart or name != "seed")
        }
    distinct = distinguishing(list(common.values()))
    return [Group(group, settings) for group, settings in zip(groups.values(), distinct, strict=True)]


def _without_seed(folder: RunFolder, settings: Settings, later: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return what makes a run besides its seed: of the run that it starts from the same, not its folder."""
    same = {key: value for key, value in select(settings, RESULT).items() if key != "seed"}
    if isinstance(name := settings.get("init_from"), str) and name not in later:  # no circle, by hand
        with suppress(CheckpointError):
            start = folder.start(name)
            if before := _settings(start):
                same["init_from"] = _without_seed(start, before, (*later, name))
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
            key.removesuffix("._target_"): _class_name(value) if key.endswith("_target_") else value
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


def _class_name(target: Any) -> str:
    return str(target).rpartition(".")[2]


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
    known = [*scores, *COST]
    if column is not None and column not in known:
        raise UserError(f"--sort {column}: no such column; there are {', '.join(known)}.")
    by = column or ("average" if "average" in scores else "dev")
    sign = 1 if by in COST else -1
    return sorted(groups, key=lambda group: math.inf if (mean := group.mean(by)) is None else sign * mean)


def fits(settings: Settings, conditions: Sequence[str]) -> bool:
    """Return whether a run has settings given as ``KEY=VALUE``; a class may be given by its name alone.

    Raises:
        UserError: A condition is something else.
    """
    for condition in conditions:
        key, equals, value = condition.partition("=")
        if not equals:
            raise UserError(f"--where {condition}: expected KEY=VALUE, such as optim.lr=5e-5.")
        if not any(_same(settings[name], value) for name in (key, f"{key}._target_") if name in settings):
            return False
    return True


def _same(value: Any, text: str) -> bool:
    wanted = OmegaConf.from_dotlist([f"value={text}"]).value
    return bool(value == wanted) or text in (str(value), _class_name(value))


def best_on_dev(runs: Sequence[ListedRun]) -> ListedRun:
    """Return the run with the best dev score.

    Raises:
        UserError: None has one, or they are of different dev pairs.
    """
    scored = [(score, run) for run in runs if (score := run.value("dev")) is not None]
    if not scored:
        raise UserError("no run has finished with a dev score.")
    dev = {str(run.folder.path): run.metrics.content.get("dev") for _, run in scored if run.metrics}
    _check_pairs(
        "--best", dev, "Choose runs by --where, or train them on one dev split (data.dev_path, data.seed)."
    )
    return max(scored, key=lambda pair: pair[0])[1]


def _check_pairs(what: str, pairs: Mapping[str, object], hint: str) -> None:
    """Reject scores of different pairs.

    Args:
        what: What they are for.
        pairs: Hash of the pairs of each run, by its name; None if it is not known.
        hint: What to do instead.
    """
    known = [(name, pair) for name, pair in pairs.items() if pair is not None]
    for name, pair in known:
        if pair != known[0][1]:
            raise UserError(f"{what}: {known[0][0]} and {name} have scores of different pairs.", hint=hint)


def print_groups(groups: Sequence[Group], scores: Sequence[str], folder: Path) -> None:
    """Print a row for each group."""
    main = [name for name in ("dev", "average", "rank") if name in scores]
    number = sum(len(group.runs) for group in groups)
    table = Table(title=f"{counted(number, 'run')} in {folder}", title_justify="left")
    all_finished = all(group.state == "finished" for group in groups)
    for heading in ("run", "settings", "seeds") if all_finished else ("run", "settings", "state", "seeds"):
        table.add_column(heading, overflow="fold")
    for heading in (*main, *COST):
        table.add_column(heading, justify="right", no_wrap=True)
    for group in groups:
        settings = " ".join(f"{key}={shown(value)}" for key, value in group.settings.items())
        state = [] if all_finished else [group.state]
        row = [group.name(folder), settings, *state, " ".join(map(str, group.seeds))]
        table.add_row(*row, *(group.cell(name) for name in (*main, *COST)))
    width = None if Console().is_terminal else 160
    Console(width=width, markup=False, emoji=False).print(table)  # settings contain brackets


def write_csv(path: Path, groups: Sequence[Group], scores: Sequence[str]) -> None:
    """Write a row for each group, with all that distinguishes it, means and deviations."""
    keys = list(dict.fromkeys(key for group in groups for key in group.settings))
    columns = [*scores, *COST]
    heads = [head for name in columns for head in (name, f"{name} std")]
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["run", "runs", "state", "seeds", *keys, *heads])
        for group in groups:
            cells = [cell for name in columns for cell in (group.mean(name), group.deviation(name))]
            settings = [group.settings.get(key, "") for key in keys]
            first = str(group.runs[0].folder.path)
            seeds = " ".join(map(str, group.seeds))
            writer.writerow([first, len(group.runs), group.state, seeds, *settings, *cells])


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
    runs = {names[str(folder)]: RunFolder(folder) for folder in folders}
    metrics = {name: run.metrics() for name, run in runs.items()}
    rows = {name: results.scores for name, results in metrics.items()}
    if len({frozenset(row) for row in rows.values()}) > 1:
        tasks = "; ".join(f"{name}: {', '.join(row)}" for name, row in rows.items())
        raise UserError(f"the runs were reported on different tasks ({tasks}).")
    how = {
        name: f"aggregate={results.aggregate}, {evaluation_text(results.details)}"
        for name, results in metrics.items()
    }
    if len(set(how.values())) > 1:
        ways = "; ".join(f"{name}: {way}" for name, way in how.items())
        raise UserError(
            f"the runs were evaluated differently ({ways}).", hint="Evaluate them alike with eval.py."
        )
    for kind in ("dev", "tests"):
        pairs = {name: results.content.get(kind) for name, results in metrics.items()}
        _check_pairs(f"mean of {kind}", pairs, "Evaluate them on the same pairs with eval.py.")
    _warn_of_repeats(runs)
    by_task = {task: [row[task] for row in rows.values()] for task in next(iter(rows.values()))}
    rows["mean"] = {task: statistics.mean(values) for task, values in by_task.items()}
    rows["std"] = {task: statistics.stdev(values) for task, values in by_task.items()}
    return rows


def _warn_of_repeats(runs: Mapping[str, RunFolder]) -> None:
    """Say which runs have one seed: repeats of a run, which deviate less than runs of several seeds."""
    names: dict[object, list[str]] = defaultdict(list)
    for name, run in runs.items():
        if run.config_file.is_file():
            names[run.settings().get("seed")].append(name)
    for seed, of_seed in names.items():
        if seed is not None and len(of_seed) > 1:
            log.warning("WARNING: %s have the same seed, %s; std is over seeds.", " and ".join(of_seed), seed)
