"""The runs of a table: which there are, and in which folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, open_dict
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.schema import register_schemas
from sts_lightning.config.trust import NOTHING, Trust
from sts_lightning.errors import ConfigError
from sts_lightning.reproduce.spec import RowSpec, Scale, TableSpec
from sts_lightning.runs.folder import RunFolder
from sts_lightning.sweep.job import Demand, Job, job_folder, job_trust
from sts_lightning.sweep.resources import demand_of


@dataclass(frozen=True)
class Cell:
    """A row of a table with one of its models.

    Attributes:
        row: Its name in the spec.
        model: A choice of the group model; None where the row's overrides name it.
    """

    row: str
    model: str | None = None


@dataclass(frozen=True)
class Planned:
    """A run.

    Attributes:
        script: ``train.py`` or ``eval.py``.
        overrides: What it is told besides its folder.
        folder: Its run folder, which is named after its configuration.
        demand: The GPUs that it asks for.
        after: The run whose weights it starts from.
        trust: The consent that reading its folder needs.
    """

    script: str
    overrides: tuple[str, ...]
    folder: Path
    demand: Demand
    after: Path | None = None
    trust: Trust = NOTHING

    @property
    def done(self) -> bool:
        """Whether it has finished."""
        return RunFolder(self.folder).metrics_file.is_file()

    def job(self, number: int) -> Job:
        """What a sweep carries out."""
        return Job(number, self.overrides, self.folder, self.demand, self.script, self.trust)


class Table:
    """The runs of a spec.

    Tables share one folder: a run that stands in several of them is run once.

    Args:
        spec: The table.
        root: The folder below which each run has one of its own.
        conf: The folder of the configuration.
        model: In place of the spec's models, with what the scale changes.
        scale: What it changes.
    """

    def __init__(
        self, spec: TableSpec, root: Path, conf: Path, model: str | None = None, scale: Scale | None = None
    ) -> None:
        self.spec = spec
        self.root = root
        self.conf = conf.absolute()
        self.model = model
        self.scale = scale
        self.cells = [Cell(name, model) for model in self._models() for name in self._rows(model)]
        self.run_seeds = scale.seeds if scale is not None and scale.seeds else spec.seeds

    @property
    def hours(self) -> float:
        """Of a run, roughly."""
        return self.spec.needs.hours if self.scale is None else self.scale.hours

    def preparations(self) -> list[Planned]:
        """The runs that others start from, without being rows."""
        used = {(cell.model, self.spec.rows[cell.row].after) for cell in self.cells}
        return [
            self._prepared(name, model)
            for model in self._models()
            for name in self.spec.before
            if (model, name) in used
        ]

    def levels(self) -> list[list[Cell]]:
        """The cells in groups, those of a group without need of each other, only of earlier groups."""
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
            raise ConfigError(f"{self.spec.title}: rows are after each other in a circle.") from None
        return [[cell for cell in self.cells if depth[cell.row] == level] for level in range(highest + 1)]

    def searches(self, cell: Cell) -> dict[str, Planned]:
        """The runs by which a row chooses among the candidates, by the candidate's name."""
        row = self.spec.rows[cell.row]
        if not (row.trains and row.search and row.choice_of is None):
            return {}
        search = self.spec.search
        return {
            name: self._trained(cell, self.run_seeds[0], (*search.overrides, *overrides))
            for name, overrides in search.candidates.items()
        }

    def seeds(self, cell: Cell) -> list[Planned]:
        """The runs of a row that the table reports; its search must have finished.

        Raises:
            CheckpointError: It has not.
        """
        row = self.spec.rows[cell.row]
        if not row.trains:
            return self._evaluations(row, cell)
        chosen = self.chosen(cell)
        choice = () if chosen is None else self.spec.search.candidates[chosen]
        return [self._trained(cell, seed, tuple(choice)) for seed in self.run_seeds]

    def _evaluations(self, row: RowSpec, cell: Cell) -> list[Planned]:
        """Of the model as it is, or of each run of the row that this one comes after."""
        scale = [] if self.scale is None else self.scale.evaluate
        overrides = (*_model(cell), *scale, *_own(row, cell))
        if row.after is None:
            return [self._planned("eval.py", overrides, cell)]
        starts = dict.fromkeys(self._start(row, cell.model, seed) for seed in self.run_seeds)
        return [self._planned("eval.py", overrides, cell, start) for start in starts]

    def chosen(self, cell: Cell) -> str | None:
        """The candidate with the best dev score in the row's search, or in that of the row it follows.

        None where nothing is searched.

        Raises:
            CheckpointError: One of these runs has not finished.
        """
        row = self.spec.rows[cell.row]
        if row.choice_of is not None:
            return self.chosen(Cell(row.choice_of, cell.model))
        scores = self.search_scores(cell)
        return max(scores, key=lambda candidate: scores[candidate]) if scores else None

    def search_scores(self, cell: Cell) -> dict[str, float]:
        """Dev Spearman of each candidate that was tried for a row."""
        return {
            name: RunFolder(run.folder).metrics().scores["dev"] for name, run in self.searches(cell).items()
        }

    def _models(self) -> list[str | None]:
        if self.model is not None:
            return [self.model]
        return list(self.spec.models) or [None]

    def _rows(self, model: str | None) -> list[str]:
        """The rows that a model has; in place of the spec's models, it has all that one of them has."""
        suited = {model} if model in self.spec.models else {model, *self.spec.models}
        return [name for name, row in self.spec.rows.items() if not row.models or suited & set(row.models)]

    def _trained(self, cell: Cell, seed: int, choice: tuple[str, ...]) -> Planned:
        row = self.spec.rows[cell.row]
        start = self._start(row, cell.model, seed)
        overrides = (*self._shared(row.overrides), *_model(cell), *_own(row, cell))
        return self._planned("train.py", (*overrides, f"seed={seed}", *choice), cell, start)

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
        overrides = self.spec.before[name]
        cell = Cell(name, model)
        return self._planned("train.py", (*self._shared(overrides), *_model(cell), *overrides), cell)

    def _shared(self, overrides: Sequence[str]) -> tuple[str, ...]:
        """The table's overrides for a run, then those of the scale, which stand over them."""
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
        self, script: str, overrides: tuple[str, ...], cell: Cell, start: Planned | None = None
    ) -> Planned:
        if start is not None:
            key = "init_from" if script == "train.py" else "ckpt"
            # What the earlier run's folder asks for was composed here too.
            overrides = (*overrides, f"{key}={start.folder}", *start.trust.arguments())
        try:
            # The last one of a key holds; Hydra refuses two for a group.
            overrides = tuple({text.partition("=")[0]: text for text in overrides}.values())
            name, demand, trust = _identify(self.conf, Path(script).stem, overrides)
        except (HydraException, OmegaConfBaseException) as error:
            reason = " ".join(str(error.__cause__ or error).split())
            raise ConfigError(f"{self.spec.title}, {cell.row}: {reason}") from error
        return Planned(script, overrides, self.root / name, demand, start.folder if start else None, trust)


def _own(row: RowSpec, cell: Cell) -> tuple[str, ...]:
    return (*row.overrides, *row.at.get(cell.model or "", ()))


def _model(cell: Cell) -> tuple[str, ...]:
    return () if cell.model is None else (f"model={cell.model}",)


@cache
def _identify(conf: Path, config_name: str, overrides: tuple[str, ...]) -> tuple[str, Demand, Trust]:
    """The name of a run's folder, the GPUs that it asks for, and the consent that reading it needs.

    Runs that differ only by the values below are composed once: composing takes a third of a second.
    """
    varying = {"seed": int, "init_from": str, "ckpt": str}
    given = {}
    for text in overrides:
        key, _, value = text.partition("=")
        if key in varying:
            given[key] = varying[key](value)
    fixed = tuple(text for text in overrides if text.partition("=")[0] not in varying)
    composed = compose_job(conf, config_name, fixed).copy()
    with open_dict(composed):
        composed.update(given)

    def compose_stage(texts: list[str]) -> DictConfig:
        return compose_job(conf, config_name, tuple(texts))

    return job_folder(composed).name, demand_of(composed), job_trust(composed, fixed, compose_stage)


@cache
def compose_job(conf: Path, config_name: str, overrides: tuple[str, ...]) -> DictConfig:
    """The configuration of a job with Hydra's own part, outside a Hydra job; not to be changed."""
    GlobalHydra.instance().clear()
    register_schemas()
    with initialize_config_dir(str(conf), version_base="1.3"):
        return compose(config_name, list(overrides), return_hydra_config=True)
