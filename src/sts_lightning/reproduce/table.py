"""A published table as a list of sweeps: rows of overrides, their runs, and the published numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from sts_lightning.config.check import path_override
from sts_lightning.config.compose import composing
from sts_lightning.config.folders import Entry, files_of
from sts_lightning.core.errors import ConfigError
from sts_lightning.core.files import as_type
from sts_lightning.sweep.grid import Grid
from sts_lightning.sweep.job import Job

CITED = "cited"
"""Key of ``published`` for systems that are cited but not run here, and mark of their rows."""

RUNS = "runs"
"""Mark of the rows that a configuration runs."""

SMALL_SEEDS = [1, 2, 3]
"""Seeds of every table at a small scale."""

STARTS: dict[Entry, str] = {"train": "init_from", "eval": "ckpt"}
"""Setting that names the run that one starts from, or evaluates."""

FORBID = {"extra": "forbid"}


@dataclass
class Row:
    """One system of a table. A plain list in the file is ``train``.

    ``init_from=row:NAME`` among the overrides, or ``ckpt=row:NAME`` of an evaluation, is the run of another
    row with the same model and seed, which is trained first.

    Attributes:
        train: Overrides of the trainings, one for each seed.
        eval: Overrides of an evaluation in place of a training.
        at: Further overrides by model.
        models: Models of the row; by default those for which the row is published, or else all of the table.
        once: True for one run whose seed is that of its configuration.
        shown: False for a row that only others start from; it runs where they do.
        scaled: False if the row is left out at a small scale, as published checkpoints are.
    """

    train: list[str] = field(default_factory=list)
    eval: list[str] | None = None
    at: dict[str, list[str]] = field(default_factory=dict)
    models: list[str] = field(default_factory=list)
    once: bool = False
    shown: bool = True
    scaled: bool = True
    __pydantic_config__ = FORBID

    @property
    def overrides(self) -> list[str]:
        """Overrides of the training or of the evaluation."""
        return self.train if self.eval is None else self.eval

    @property
    def start(self) -> str | None:
        """Name of the row whose run it starts from, or evaluates."""
        return next((text.partition("=row:")[2] for text in self.overrides if "=row:" in text), None)


@dataclass
class TableSpec:
    """A file of ``conf/reproduce``.

    Attributes:
        title: Heading of the table.
        rows: Systems by name.
        seeds: Random seeds; each trained row has one run per seed.
        needs: What each run needs, in words: hardware and time.
        mixes: Whose settings it mixes, in words: the paper's or its code's with others.
        like: Table whose specification is the base of this one; it may have a base itself. A row, or its
            published values, of the base that is null here is left out.
        models: Choices of the group model, or of a scale; if empty, the overrides contain the model.
        columns: ``dev``, test sets, ``average``, ``std`` (of the average over seeds), ``memory`` (GB) or
            ``rank`` (with ``evaluation.rank=true``); if empty, all scores of the runs.
        overrides: Overrides of all trainings; those of a row take precedence.
        at: Further ones by model.
        report: Overrides of an evaluation of each run that a shown row trains, whose scores the row then has.
            No run then has a report of its own. Not at a small scale.
        published: Published values of the columns, by model and row; under ``cited``, those of systems that
            are not run here. Without models, the key of the model is ``published``.
        why: Reason why each cited system is not run here, by name.
        baselines: Rows that the other rows of the same model are compared with.
    """

    title: str
    rows: dict[str, Row]
    seeds: list[int] = field(default_factory=lambda: [1, 2, 3])
    needs: str = "no GPU, up to 1 h"
    mixes: str = ""
    like: str | None = None
    models: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    overrides: list[str] = field(default_factory=list)
    at: dict[str, list[str]] = field(default_factory=dict)
    report: list[str] = field(default_factory=list)
    published: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    baselines: list[str] = field(default_factory=list)
    __pydantic_config__ = FORBID


def load_spec(name: str) -> TableSpec:
    """Read the specification of a table, the user's own before that of the package.

    Args:
        name: Name of a file in ``conf/reproduce``, without ``.yaml``.

    Raises:
        ConfigError: There is no such file, or it has an unknown key or a wrong type.
    """
    values = _with_base(name)
    try:
        spec: TableSpec = as_type(values, TableSpec)
    except ValueError as error:
        raise ConfigError(f"conf/reproduce/{name}.yaml: {error}.") from error
    return spec


def _with_base(name: str) -> dict[str, Any]:
    """Read a table merged into the one that it is like, which may be like another one."""
    folder, _, file = f"reproduce/{name}".rpartition("/")  # what tables share is in folders below
    if (path := files_of(folder).get(file)) is None:
        known = ", ".join(files_of("reproduce"))
        raise ConfigError(f"there is no table {name}; there are: {known}.", key="table")
    try:
        values = OmegaConf.to_container(OmegaConf.load(path))
    except (YAMLError, OmegaConfBaseException) as error:
        raise ConfigError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict) or not isinstance(values.get("rows", {}), dict):
        raise ConfigError(f"{path} must hold keys and values, and rows by name.")
    table: dict[str, Any] = {str(key): value for key, value in values.items()}
    for name, row in list(table.pop("rows", {}).items()):
        table.setdefault("rows", {}).update(_swept(str(name), row))
    return table if "like" not in table else _merged(_with_base(str(table["like"])), table)


def _swept(name: str, row: Any) -> dict[str, Any]:
    """Return a row by name; for a name with ``{KEY=A,B}``, a row with the override for each of the values."""
    row = {"train": row} if isinstance(row, list) else row
    sweep = re.search(r"{([^{}]+)=([^{}]+)}", name)
    if sweep is None or row is None:
        return {name: row}
    kind, rows = "eval" if "eval" in row else "train", dict[str, Any]()
    for value in sweep[2].split(","):
        texts = [text.replace(f"{{{sweep[1]}}}", value) for text in row.get(kind, [])]
        rows |= _swept(name.replace(sweep[0], value), row | {kind: [*texts, f"{sweep[1]}={value}"]})
    return rows


def _merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a base with changes, without the keys that are null in these."""
    merged = dict(base)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        merged[key] = _merged(base[key], value) if both else value
    return {key: value for key, value in merged.items() if value is not None}


class Cell(NamedTuple):
    """A shown row with one of its models; None if the row's overrides contain the model."""

    row: str
    model: str | None = None


class Run(NamedTuple):
    """A training or an evaluation, before it is composed.

    Attributes:
        entry: ``train`` or ``eval``.
        overrides: Its overrides, without the run that it starts from.
        start: The run that it starts from, or evaluates.
    """

    entry: Entry
    overrides: tuple[str, ...]
    start: Run | None = None

    @property
    def without_seed(self) -> tuple[str, ...]:
        """The overrides that it has with each seed."""
        return tuple(text for text in self.overrides if not text.startswith("seed="))

    @property
    def chain(self) -> list[Run]:
        """The run after those that it starts from."""
        return [self] if self.start is None else [*self.start.chain, self]


class Table:
    """Runs of a table.

    Tables share one root: a run that occurs in several tables runs once.

    Args:
        name: Name of its file.
        spec: Specification of the table.
        root: Parent of the run folders.
        scale: Choice of the group scale, and the model that replaces those of the spec; None: theirs.
    """

    def __init__(self, name: str, spec: TableSpec, root: Path, scale: str | None = None) -> None:
        self.name = name
        self.spec = spec
        self.root = root
        self.scale = scale
        self.seeds = spec.seeds if scale is None else SMALL_SEEDS
        self.reports_apart = bool(spec.report) and scale is None
        models: list[str | None] = [*spec.models] or [None] if scale is None else [scale]
        self.cells = [Cell(row, model) for model in models for row in spec.rows if self._has(row, model)]

    def _has(self, name: str, model: str | None) -> bool:
        """Return whether a row is shown with a model; that of a scale has the rows of all other models."""
        row, published = self.spec.rows[name], self.spec.published
        own = row.models or [key for key in published if key != CITED and name in published[key]]
        suited = {model} if model in self.spec.models else {model, *self.spec.models}
        return row.shown and (row.scaled or self.scale is None) and (not own or bool(suited & {*own}))

    def runs(self, cell: Cell) -> list[Run]:
        """Return the runs whose scores a row has: trainings, or evaluations by `TableSpec.report`."""
        runs = list(dict.fromkeys(self._run(cell.row, cell.model, seed) for seed in self.seeds))
        if self.reports_apart and self.spec.rows[cell.row].eval is None:
            return [Run("eval", tuple(self.spec.report), run) for run in runs]
        return runs

    def all_runs(self) -> list[Run]:
        """Return all runs, each once and after the one that it starts from."""
        runs = (run for cell in self.cells for run in self.runs(cell))
        return list(dict.fromkeys(each for run in runs for each in run.chain))

    def _run(self, name: str, model: str | None, seed: int, later: tuple[str, ...] = ()) -> Run:
        spec = self.spec
        if (row := spec.rows.get(name)) is None or name in later:
            key, why = f"rows.{later[-1]}", "no row" if row is None else "to start from it"
            raise ConfigError(f"conf/reproduce/{self.name}.yaml: {key} starts from {name}, {why}.", key=key)
        start = None if row.start is None else self._run(row.start, model, seed, (*later, name))
        own = [text for text in row.overrides if "=row:" not in text] + row.at.get(model or "", [])
        own = [f"model={model}", *own] if model else own
        if row.eval is not None:
            return Run("eval", _last_of_each(own), start)
        shared = [*spec.overrides, *spec.at.get(model or "", [])]
        shared += [] if self.scale is None else [f"scale={self.scale}"]
        shared += ["evaluation.final=false"] if self.reports_apart else []
        return Run("train", _last_of_each([*shared, *own, *([] if row.once else [f"seed={seed}"])]), start)

    def jobs(self) -> tuple[dict[Run, Job], Grid]:
        """Compose all runs, which takes a while: those that differ in seed and start only are composed once.

        Returns:
            The job of each run, of equal configurations the same one; and all jobs, with the runs of
            experiments that rows start from, each after those that it needs.

        Raises:
            ConfigError: A configuration is wrong; the message names the run.
        """
        runs, jobs = self.all_runs(), dict[Run, Job]()

        def composed(_: list[str], number: int) -> DictConfig:
            run = runs[number]
            cfg = grid.whole(run.entry, run.without_seed).copy()
            cfg.hydra.sweep.dir = str(self.root)
            for text in {*run.overrides} - {*run.without_seed}:
                cfg.seed = int(text.removeprefix("seed="))
            if run.start is not None:
                cfg[STARTS[run.entry]] = str(jobs[run.start].folder)
            return cfg

        grid = Grid(composed)
        with composing():
            for number, run in enumerate(runs):
                texts = [path_override(STARTS[run.entry], jobs[run.start].folder)] if run.start else []
                jobs[run] = grid.add(number, [*run.overrides, *texts])
        return jobs, grid


def _last_of_each(overrides: list[str]) -> tuple[str, ...]:
    """Return the last override of each key, which takes precedence; Hydra rejects two for a group."""
    return tuple({text.partition("=")[0]: text for text in overrides}.values())


def open_table(name: str, scale: str | None, root: Path) -> Table:
    """Load a table.

    Args:
        name: Name of a file in ``conf/reproduce``, without ``.yaml``.
        scale: Choice of the group scale, to run the rows with that model; None: with theirs.
        root: Folder of the runs.

    Raises:
        ConfigError: There is no such file, or it is invalid.
    """
    scales = files_of("scale")
    if scale is not None and scale not in scales:
        raise ConfigError(f"there is no scale {scale}; there are: {', '.join(scales)}.", key="model")
    return Table(name, load_spec(name), root, scale)


def compared_column(columns: list[str]) -> str | None:
    """Return the column that the rows of a table are compared by; None for the mean of all columns.

    It is the average of a table that has it, else the dev score, else the only column.
    """
    known = [column for column in ("average", "dev") if column in columns]
    return known[0] if known else columns[0] if len(columns) == 1 else None
