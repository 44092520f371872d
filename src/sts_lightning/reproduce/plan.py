"""Runs of a table, with their folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import open_dict
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.check import path_override
from sts_lightning.config.compose import compose_job, explain
from sts_lightning.core.conf_folders import Entry, folders, script_of
from sts_lightning.core.errors import ConfigError
from sts_lightning.reproduce.spec import (
    Preparation,
    Requirements,
    RowSpec,
    Scale,
    TableSpec,
    load_scale,
    load_spec,
    spec_file,
)
from sts_lightning.runs.folder import RunFolder
from sts_lightning.sweep.gpu_pool import demand_of
from sts_lightning.sweep.job import Demand, Job, job_folder

VARYING = {"seed": int, "init_from": str, "ckpt": str}
"""Settings in which the runs of a row differ, with their types; without them they are composed once."""


@dataclass(frozen=True)
class Cell:
    """A row of a table with one of its models.

    Attributes:
        row: Name of the row in the spec.
        model: Choice of the group model; None if the row's overrides contain it.
    """

    row: str
    model: str | None = None


@dataclass
class TableRun(Job):
    """A run of a table, as a job of a sweep. Its overrides are without the folder.

    Attributes:
        entry: ``train`` or ``eval``.
        hours: Approximate duration.
    """

    entry: Entry = "train"
    hours: float = 0.0

    @property
    def after(self) -> Path | None:
        """Path of the run whose weights it starts from."""
        return self.needs[0] if self.needs else None

    @property
    def results(self) -> RunFolder:
        """Folder with the results."""
        return self.run_folder


class Table:
    """Runs of a table.

    Tables share one root: a run that occurs in several tables runs once.

    Args:
        spec: Specification of the table.
        root: Parent of the run folders.
        model: Model that replaces those of the spec, at the given scale.
        scale: Settings of that model; None for the models of the spec.
    """

    def __init__(
        self, spec: TableSpec, root: Path, model: str | None = None, scale: Scale | None = None
    ) -> None:
        self.spec = spec
        self.root = root
        self.model = model
        self.scale = scale
        models: list[str | None] = [model] if model is not None else [*spec.models] or [None]
        kept = [row.model for row in spec.rows.values() if self._keeps_model(row)]
        self.cells = [
            Cell(name, each)
            for each in dict.fromkeys([*models, *kept])
            for name in self._rows(each, each in models)
        ]
        self.run_seeds = scale.seeds if scale is not None and scale.seeds else spec.seeds

    @property
    def needs(self) -> Requirements:
        """Hardware and time required by each run."""
        return self.spec.needs if self.scale is None else Requirements(hours=self.scale.hours)

    def preparations(self) -> list[TableRun]:
        """Return the preparatory runs, from which rows start."""
        return [self._prepared(name, model) for name, model in self._used_preparations()]

    def count(self) -> int:
        """Return the number of runs: preparations, searches, trainings, hidden ones too, and evaluations.

        Nothing is composed for it: composing all tables takes minutes.
        """
        count = len(self._used_preparations())
        for cell in self.cells:
            row = self.spec.rows[cell.row]
            seeds = len(self.run_seeds)
            if not row.trains:
                count += seeds if row.after in self.spec.rows else 1
                continue
            count += 2 * seeds if self._reports_apart and row.shown else seeds
            count += len(self.spec.search.candidates) if row.choice_of is None else 0
        return count

    def levels(self) -> list[list[Cell]]:
        """Return the cells in groups; a cell depends on cells of earlier groups only."""
        rows = self.spec.rows
        order = TopologicalSorter(
            {name: {row.after, row.choice_of} & rows.keys() for name, row in rows.items()}
        )
        order.prepare()
        levels = []
        while ready := order.get_ready():
            levels.append([cell for cell in self.cells if cell.row in ready])
            order.done(*ready)
        return [level for level in levels if level]

    def search_runs(self, cell: Cell) -> dict[str, TableRun]:
        """Return the runs of a row's search, by candidate; empty if the row has no search."""
        row = self.spec.rows[cell.row]
        if not row.trains or row.choice_of is not None:
            return {}
        search = self.spec.search
        return {
            name: self._trained(cell, self.run_seeds[0], (*search.overrides, *overrides))
            for name, overrides in search.candidates.items()
        }

    def seed_runs(self, cell: Cell) -> list[TableRun]:
        """Return the reported runs of a row, one per seed: trainings, or evaluations by `TableSpec.report`.

        Raises:
            CheckpointError: The search of the row has not finished.
        """
        row = self.spec.rows[cell.row]
        if row.trains:
            trained = self.trained_runs(cell)
            if not self._reports_apart or not row.shown:
                return trained
            return [self._run("eval", tuple(self.spec.report), cell, run) for run in trained]
        # Of the untrained model, or of each run of the row that it is after.
        starts = [self._start(row, cell.model, seed) for seed in self.run_seeds]
        runs = [self._run("eval", _of_model(row, cell), cell, start) for start in starts]
        return list({run.folder: run for run in runs}.values())

    def trained_runs(self, cell: Cell) -> list[TableRun]:
        """Return the trainings of a row, one per seed; none if it is not trained.

        Raises:
            CheckpointError: The search of the row has not finished.
        """
        trains = self.spec.rows[cell.row].trains
        return [self._chosen_run(cell, seed) for seed in self.run_seeds] if trains else []

    def chosen(self, cell: Cell) -> str | None:
        """Return the candidate with the best dev score in the row's search, or in that of `choice_of`.

        It is None without a search.

        Raises:
            CheckpointError: A run of the search has not finished.
        """
        row = self.spec.rows[cell.row]
        if row.choice_of is not None:
            return self.chosen(Cell(row.choice_of, cell.model))
        scores = self.search_scores(cell)
        return max(scores, key=lambda candidate: scores[candidate]) if scores else None

    def search_scores(self, cell: Cell) -> dict[str, float]:
        """Return the dev Spearman of each candidate of a row's search.

        Raises:
            CheckpointError: A run of the search has not finished.
        """
        return {name: run.results.metrics().scores["dev"] for name, run in self.search_runs(cell).items()}

    def _used_preparations(self) -> list[tuple[str, str | None]]:
        used = dict.fromkeys((self.spec.rows[cell.row].after, cell.model) for cell in self.cells)
        return [(name, model) for name, model in used if name in self.spec.before]

    @property
    def _reports_apart(self) -> bool:
        """Whether trained rows have the scores of evaluations of their own; then no training is reported."""
        return bool(self.spec.report) and self.scale is None

    def _keeps_model(self, row: RowSpec) -> bool:
        """Return whether a row has its own model: not where a scale replaces that of its training."""
        start = self.spec.rows.get(row.after or "")
        trained = row.trains or (start is not None and start.trains)
        return row.model is not None and (self.model is None or not trained)

    def _rows(self, model: str | None, of_table: bool) -> list[str]:
        """Return the rows of a model; a model that replaces those of the spec has the rows of all of them."""
        suited = {model} if model in self.spec.models else {model, *self.spec.models}
        return [
            name
            for name, row in self.spec.rows.items()
            if (row.scaled or self.model is None)
            and (row.model == model if self._keeps_model(row) else of_table)
            and (not row.models or suited & set(row.models))
        ]

    def _trained(self, cell: Cell, seed: int, choice: Sequence[str]) -> TableRun:
        row = self.spec.rows[cell.row]
        overrides = (*self._shared(row.overrides), *_of_model(row, cell), f"seed={seed}", *choice)
        return self._run("train", overrides, cell, self._start(row, cell.model, seed))

    def _chosen_run(self, cell: Cell, seed: int) -> TableRun:
        chosen = self.chosen(cell)
        return self._trained(cell, seed, () if chosen is None else self.spec.search.candidates[chosen])

    def _start(self, row: RowSpec, model: str | None, seed: int) -> TableRun | None:
        if row.after is None:
            return None
        if row.after in self.spec.before:
            return self._prepared(row.after, model)
        return self._chosen_run(Cell(row.after, model), seed)

    def _prepared(self, name: str, model: str | None) -> TableRun:
        preparation = self.spec.before[name]
        cell = Cell(name, model)
        overrides = (*self._shared(preparation.overrides), *_of_model(preparation, cell))
        return self._run("train", overrides, cell)

    def _shared(self, overrides: Sequence[str]) -> tuple[str, ...]:
        """Return the overrides of the table, then those of the scale, which take precedence."""
        if self.scale is None:
            final = ("evaluation.final=false",) if self._reports_apart else ()
            return (*self.spec.overrides, *final)
        given = dict(text.split("=", 1) for text in overrides)
        of_experiment = self.scale.experiments.get(given.get("experiment", ""), ())
        return (*self.spec.overrides, *self.scale.overrides, *of_experiment)

    def _run(
        self, entry: Entry, overrides: tuple[str, ...], cell: Cell, start: TableRun | None = None
    ) -> TableRun:
        if start is not None:
            key = "init_from" if entry == "train" else "ckpt"
            overrides = (*overrides, path_override(key, start.folder))
        try:
            # The last override of a key takes precedence; Hydra rejects two for a group.
            overrides = tuple({text.partition("=")[0]: text for text in overrides}.values())
            name, demand = _identify(entry, overrides, folders())
        except (HydraException, OmegaConfBaseException) as error:
            cause = explain(error, entry, overrides)
            raise ConfigError(f"{self.spec.title}, {cell.row}: {cause}", key=cause.key) from error
        hours = self.needs.duration(entry, start is not None)
        script = str(script_of(entry))
        run = TableRun(0, overrides, self.root / name, demand, script, entry=entry, hours=hours)
        if start is not None:
            run.needs = (start.folder,)
        return run


def open_table(name: str, model: str | None, root: Path) -> Table:
    """Load the plan of a table.

    Args:
        name: Name of a file in conf/reproduce, without .yaml.
        model: Name of a file in conf/reproduce/scale, to run the rows with that model; None: with theirs.
        root: Folder of the runs.

    Raises:
        ConfigError: There is no such file, or it is invalid.
    """
    scale = None if model is None else load_scale(spec_file("scale", model))
    return Table(load_spec(spec_file("table", name)), root, model, scale)


def _of_model(row: Preparation, cell: Cell) -> tuple[str, ...]:
    model = () if cell.model is None else (f"model={cell.model}",)
    return (*model, *row.overrides, *row.at.get(cell.model or "", ()))


@cache
def _identify(entry: Entry, overrides: tuple[str, ...], _folders: tuple[Path, ...]) -> tuple[str, Demand]:
    """Return the name of a run's folder, and its requested GPUs.

    Runs that differ in `VARYING` only are composed once, since composing takes a third of a second.
    """
    given = {}
    for text in overrides:
        key, _, value = text.partition("=")
        if key in VARYING:
            quoted = value.startswith("'")
            plain = OverridesParser.create().parse_override(text).value() if quoted else value
            given[key] = VARYING[key](str(plain))
    fixed = tuple(text for text in overrides if text.partition("=")[0] not in VARYING)
    composed = compose_job(entry, fixed).copy()
    with open_dict(composed):
        composed.update(given)
    return job_folder(composed).name, demand_of(composed)
