"""Planned runs of a table, with their folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, open_dict
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.conf_folders import Entry, command_line, folders, script_of
from sts_lightning.config.compose import compose_job, explain
from sts_lightning.config.keys import path_override
from sts_lightning.config.trust import NOTHING, Trust
from sts_lightning.errors import ConfigError
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
from sts_lightning.sweep.job import Demand, Job, job_folder, job_trust
from sts_lightning.sweep.resources import demand_of

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


@dataclass(frozen=True)
class Planned:
    """A planned run.

    Attributes:
        entry: ``train`` or ``eval``.
        overrides: Command-line overrides, without the folder.
        folder: Path of the run folder, named after the configuration.
        demand: Requested GPUs.
        after: Path of the run whose weights it starts from.
        trust: Consent needed to read the folder.
        options: Options of the command: the consent needed to read the folder that it starts from.
    """

    entry: Entry
    overrides: tuple[str, ...]
    folder: Path
    demand: Demand
    after: Path | None = None
    trust: Trust = NOTHING
    options: tuple[str, ...] = ()

    @property
    def run_folder(self) -> RunFolder:
        """Files of the run."""
        return RunFolder(self.folder)

    @property
    def done(self) -> bool:
        """Whether the run has finished."""
        return self.run_folder.finished

    @property
    def results(self) -> RunFolder:
        """Folder with the results: of a run of several stages, that of the last one."""
        return self.run_folder.last_stage()

    @property
    def command(self) -> str:
        """The run as a command, without the folder."""
        return command_line(self.entry, *self.overrides, *self.options)

    def job(self, number: int) -> Job:
        """Return the run as a job of a sweep."""
        script = str(script_of(self.entry))
        return Job(number, self.overrides, self.folder, self.demand, script, self.trust, added=self.options)


class Table:
    """Planned runs of a table.

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
        self.cells = [Cell(name, model) for model in self._models() for name in self._rows(model)]
        self.run_seeds = scale.seeds if scale is not None and scale.seeds else spec.seeds

    @property
    def needs(self) -> Requirements:
        """Hardware and time required by each run."""
        return self.spec.needs if self.scale is None else Requirements(hours=self.scale.hours)

    def preparations(self) -> list[Planned]:
        """Return the preparatory runs, from which rows start."""
        used = {(cell.model, self.spec.rows[cell.row].after) for cell in self.cells}
        return [
            self._prepared(name, model)
            for model in self._models()
            for name in self.spec.before
            if (model, name) in used
        ]

    def levels(self) -> list[list[Cell]]:
        """Return the cells in groups; a cell depends on cells of earlier groups only."""
        depth: dict[str, int] = {}

        def depth_of(name: str) -> int:
            if name not in depth:
                row = self.spec.rows[name]
                needed = [other for other in (row.after, row.choice_of) if other in self.spec.rows]
                depth[name] = max((1 + depth_of(str(other)) for other in needed), default=0)
            return depth[name]

        try:
            highest = max((depth_of(cell.row) for cell in self.cells), default=-1)
        except RecursionError:
            raise ConfigError(
                f"{self.spec.title}: after and choice_of of its rows form a cycle; remove one of them."
            ) from None
        return [[cell for cell in self.cells if depth[cell.row] == level] for level in range(highest + 1)]

    def search_runs(self, cell: Cell) -> dict[str, Planned]:
        """Return the runs of a row's search, by candidate; empty if the row has no search of its own."""
        row = self.spec.rows[cell.row]
        if not (row.trains and row.search and row.choice_of is None):
            return {}
        search = self.spec.search
        return {
            name: self._trained(cell, self.run_seeds[0], (*search.overrides, *overrides))
            for name, overrides in search.candidates.items()
        }

    def seed_runs(self, cell: Cell) -> list[Planned]:
        """Return the reported runs of a row, one per seed.

        Raises:
            CheckpointError: The search of the row has not finished.
        """
        row = self.spec.rows[cell.row]
        if not row.trains:
            return self._evaluations(row, cell)
        chosen = self.chosen(cell)
        choice = () if chosen is None else self.spec.search.candidates[chosen]
        return [self._trained(cell, seed, tuple(choice)) for seed in self.run_seeds]

    def _evaluations(self, row: RowSpec, cell: Cell) -> list[Planned]:
        """Return the evaluations of the untrained model, or of each run of the row named by `after`."""
        overrides = (*_model(cell), *_own(row, cell))
        if row.after is None:
            return [self._planned("eval", overrides, cell)]
        starts = dict.fromkeys(self._start(row, cell.model, seed) for seed in self.run_seeds)
        return [self._planned("eval", overrides, cell, start) for start in starts]

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

    def _models(self) -> list[str | None]:
        own = [row.model for row in self.spec.rows.values() if row.model and self._keeps_model(row)]
        return list(dict.fromkeys([*self._table_models(), *own]))

    def _table_models(self) -> list[str | None]:
        if self.model is not None:
            return [self.model]
        return list(self.spec.models) or [None]

    def _keeps_model(self, row: RowSpec) -> bool:
        """Return whether a row has its own model: not where a scale replaces that of its training."""
        start = self.spec.rows.get(row.after or "")
        trained = row.trains or (start is not None and start.trains)
        return row.model is not None and (self.model is None or not trained)

    def _rows(self, model: str | None) -> list[str]:
        """Return the rows of a model; a model that replaces those of the spec has the rows of all of them."""
        of_table = model in self._table_models()
        suited = {model} if model in self.spec.models else {model, *self.spec.models}
        return [
            name
            for name, row in self.spec.rows.items()
            if (row.model == model if self._keeps_model(row) else of_table)
            and (not row.models or suited & set(row.models))
        ]

    def _trained(self, cell: Cell, seed: int, choice: tuple[str, ...]) -> Planned:
        row = self.spec.rows[cell.row]
        start = self._start(row, cell.model, seed)
        overrides = (*self._shared(row.overrides), *_model(cell), *_own(row, cell))
        return self._planned("train", (*overrides, f"seed={seed}", *choice), cell, start)

    def _start(self, row: RowSpec, model: str | None, seed: int) -> Planned | None:
        if row.after is None:
            return None
        if row.after in self.spec.before:
            return self._prepared(row.after, model)
        earlier = Cell(row.after, model)
        choice = self.chosen(earlier)
        return self._trained(
            earlier, seed, () if choice is None else tuple(self.spec.search.candidates[choice])
        )

    def _prepared(self, name: str, model: str | None) -> Planned:
        preparation = self.spec.before[name]
        cell = Cell(name, model)
        overrides = (*self._shared(preparation.overrides), *_model(cell), *_own(preparation, cell))
        return self._planned("train", overrides, cell)

    def _shared(self, overrides: Sequence[str]) -> tuple[str, ...]:
        """Return the overrides of the table, then those of the scale, which take precedence."""
        if self.scale is None:
            return tuple(self.spec.overrides)
        experiment = next(
            (text.partition("=")[2] for text in overrides if text.startswith("experiment=")), ""
        )
        return (
            *self.spec.overrides,
            *self.scale.overrides,
            *self.scale.experiments.get(experiment, ()),
        )

    def _planned(
        self, entry: Entry, overrides: tuple[str, ...], cell: Cell, start: Planned | None = None
    ) -> Planned:
        if start is not None:
            key = "init_from" if entry == "train" else "ckpt"
            overrides = (*overrides, path_override(key, start.folder))
        try:
            # The last override of a key takes precedence; Hydra rejects two for a group.
            overrides = tuple({text.partition("=")[0]: text for text in overrides}.values())
            name, demand, trust = _identify(entry, overrides, folders())
        except (HydraException, OmegaConfBaseException) as error:
            cause = explain(error, entry, overrides)
            raise ConfigError(f"{self.spec.title}, {cell.row}: {cause}", key=cause.key) from error
        if start is None:
            return Planned(entry, overrides, self.root / name, demand, trust=trust)
        # The configuration of the earlier run was composed here too, hence the consent.
        trust |= start.trust
        return Planned(
            entry, overrides, self.root / name, demand, start.folder, trust, start.trust.arguments()
        )


def open_table(name: str, model: str | None, root: Path) -> Table:
    """Load the plan of a table.

    Args:
        name: Name of a file in conf/reproduce, without .yaml.
        model: Name of a file in conf/reproduce/scale, to run the rows with that model; None: with their own.
        root: Folder of the runs.

    Raises:
        ConfigError: There is no such file, or it is invalid.
    """
    scale = None if model is None else load_scale(spec_file("scale", model))
    return Table(load_spec(spec_file("table", name)), root, model, scale)


def _own(row: RowSpec | Preparation, cell: Cell) -> tuple[str, ...]:
    return (*row.overrides, *row.at.get(cell.model or "", ()))


def _model(cell: Cell) -> tuple[str, ...]:
    return () if cell.model is None else (f"model={cell.model}",)


@cache
def _identify(
    entry: Entry, overrides: tuple[str, ...], _folders: tuple[Path, ...]
) -> tuple[str, Demand, Trust]:
    """Return the name of a run's folder, its requested GPUs, and the consent needed to read the folder.

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

    def compose_stage(texts: list[str]) -> DictConfig:
        return compose_job(entry, tuple(texts))

    return job_folder(composed).name, demand_of(composed), job_trust(composed, fixed, compose_stage)
