"""Specification of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from sts_lightning.core.conf_folders import PACKAGED, Entry, files_of
from sts_lightning.core.errors import ConfigError
from sts_lightning.core.text import counted

SpecType = Literal["table", "scale"]
"""What a file below ``conf/reproduce`` specifies."""

FOLDERS: dict[SpecType, str] = {"table": "reproduce", "scale": "reproduce/scale"}
"""Folders of these, below those of the configuration."""

CITED = "cited"
"""Key of ``published`` for systems that are cited but not run here, and mark of their rows."""

RUNS = "runs"
"""Mark of the rows that a configuration runs."""


@dataclass
class Search:
    """Search by dev score, run once per row before its seeds.

    Attributes:
        candidates: Overrides of each candidate, by name; no search if empty.
        overrides: Overrides of all runs of the search, such as a shorter schedule.
    """

    candidates: dict[str, list[str]] = field(default_factory=dict)
    overrides: list[str] = field(default_factory=list)


@dataclass
class Preparation:
    """A run that rows start from.

    Attributes:
        overrides: Overrides of train.py.
        at: Further overrides by model.
    """

    overrides: list[str] = field(default_factory=list)
    at: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class RowSpec(Preparation):
    """One system of a table; a row without training has the overrides of an evaluation.

    Attributes:
        trains: True if the row is trained.
        after: Preparatory run or row that provides the initial, or the evaluated, weights; of a row, the run
            with the same seed.
        models: Models of the row; all models of the table if empty.
        model: Model of the row instead of the table's; at another scale a trained row has that of the scale.
        shown: True if the row appears in the table; otherwise it runs only for the rows that start from it.
        scaled: False if the row is left out where a scale replaces the models, as of published checkpoints.
        choice_of: Row whose choice is used instead of a search.
    """

    trains: bool = True
    after: str | None = None
    models: list[str] = field(default_factory=list)
    model: str | None = None
    shown: bool = True
    scaled: bool = True
    choice_of: str | None = None


@dataclass
class Requirements:
    """Hardware and time required by each run of a table.

    Attributes:
        gpus: Number of GPUs; 0: none.
        memory: Memory of each GPU in GB.
        hours: Approximate duration of a training.
        tuning: That of one that starts from another run; None: as any other.
        evaluation: That of an evaluation, if less than `hours`; by default on the seven test sets, of a 7B
            model on a GPU or a small one on a CPU.
    """

    gpus: int = 0
    memory: int = 0
    hours: float = MISSING
    tuning: float | None = None
    evaluation: float = 0.1

    @property
    def hardware(self) -> str:
        """What each run needs, in words."""
        return f"{counted(self.gpus, 'GPU')} with {self.memory} GB" if self.gpus else "no GPU"

    def duration(self, entry: Entry, later: bool) -> float:
        """Return the approximate hours of a run.

        Args:
            entry: Command of the run.
            later: Whether it starts from another run.
        """
        if entry == "eval":
            return min(self.evaluation, self.hours)
        return self.hours if self.tuning is None or not later else self.tuning

    def __str__(self) -> str:
        hours = f"{self.hours:g} h" if self.hours >= 1 else f"{60 * self.hours:.0f} min"
        return f"{self.hardware}, up to {hours}"


@dataclass
class TableSpec:
    """A table.

    Attributes:
        title: Heading of the table.
        seeds: Random seeds; each trained row has one run per seed.
        needs: Requirements of each run.
        mixes: Whose settings it mixes, in words: the paper's or its code's with others.
        like: Table whose specification is the base of this one; it may have a base itself. A row, or its
            published values, of the base that is null here is left out.
        models: Choices of the group model, each with all rows; if empty, the overrides contain the model.
        columns: ``dev``, test sets, ``average``, ``std`` (of the average over seeds), ``memory`` (GB) or
            ``rank`` (with ``evaluation.rank=true``); if empty, all scores of the runs.
        overrides: Overrides of all runs of train.py.
        search: Search by dev score.
        before: Preparatory runs of train.py, by name; each runs once per model.
        rows: Systems by name.
        published: Published values of the columns, by model and row; under ``cited``, those of systems that
            are not run here. Without models, the key of the model is ``published``.
        why: Reason why each cited system is not run here, by name.
        baselines: Rows that the other rows of the same model are compared with.
        report: Overrides of an evaluation of each run that a shown row trains, whose scores the row then has.
            No run then has a report of its own. Not at another scale.
    """

    title: str = MISSING
    seeds: list[int] = MISSING
    needs: Requirements = field(default_factory=Requirements)
    mixes: str = ""
    like: str | None = None
    models: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    overrides: list[str] = field(default_factory=list)
    search: Search = field(default_factory=Search)
    before: dict[str, Preparation] = field(default_factory=dict)
    rows: dict[str, RowSpec] = field(default_factory=dict)
    published: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    baselines: list[str] = field(default_factory=list)
    report: list[str] = field(default_factory=list)


@dataclass
class Scale:
    """Settings that adapt the rows of every table to a smaller model.

    Attributes:
        hours: Approximate duration of a run.
        seeds: Random seeds; those of the table if empty.
        overrides: Overrides of all runs of train.py.
        experiments: Overrides of the runs of an experiment, by experiment.
    """

    hours: float = MISSING
    seeds: list[int] = field(default_factory=list)
    overrides: list[str] = field(default_factory=list)
    experiments: dict[str, list[str]] = field(default_factory=dict)


def compared_column(columns: Sequence[str]) -> str | None:
    """Return the column that the rows of a table are compared by; None for the mean of all columns.

    It is the average of a table that has it, else the dev score, else the only column.
    """
    for column in ("average", "dev"):
        if column in columns:
            return column
    return columns[0] if len(columns) == 1 else None


def load_spec(path: Path) -> TableSpec:
    """Read a specification and validate its references.

    Args:
        path: File of the table.

    Raises:
        ConfigError: The file is missing, has an unknown key or a wrong type, or refers to an unknown row.
    """
    spec: TableSpec = _typed(path, TableSpec, _with_base(path))
    if not spec.rows and not spec.published:
        raise ConfigError(f"{path}: rows is required.")
    for key, mistake in _mistakes(spec):
        raise ConfigError(f"{path}: {key} {mistake}", key=key)
    return spec


def _with_base(path: Path) -> DictConfig:
    """Read a table merged into the one that it is like, which may be like another one."""
    text = _read(path, "table")
    if text.get("like") is None:
        return text
    beside = path.with_stem(str(text["like"]))
    of_base = beside if beside.is_file() else spec_file("table", str(text["like"]))
    base = _with_base(of_base)
    base.merge_with(text)
    for node in (base.get("rows"), *(base.get("published") or {}).values()):
        for name in [name for name, value in (node or {}).items() if value is None]:
            del node[name]
    return base


def _mistakes(spec: TableSpec) -> Iterator[tuple[str, str]]:
    """Yield the key of each wrong reference, and what is wrong with it."""
    for name, row in spec.rows.items():
        if row.after is not None and row.after not in {*spec.before, *spec.rows} - {name}:
            yield f"rows.{name}.after", f"is {row.after}, not among before or the other rows."
        if row.choice_of is not None and row.choice_of not in spec.rows:
            yield f"rows.{name}.choice_of", f"is {row.choice_of}, not among rows."
    for name in spec.baselines:
        if name not in spec.rows:
            yield "baselines", f"names {name}, not among rows."
    for model, systems in spec.published.items():
        for name, values in systems.items():
            key = f"published.{model}.{name}"
            if model != CITED and name not in spec.rows:
                yield key, "is not among rows."
            if model == CITED and not spec.why.get(name, "").strip():
                yield f"why.{name}", "is missing: why is this cited system not run?"
            if len(values) != len(spec.columns):
                yield key, f"has {len(values)} values, and there are {len(spec.columns)} columns."


def load_scale(path: Path) -> Scale:
    """Read the settings of a smaller model.

    Args:
        path: File of the scale.

    Raises:
        ConfigError: The file is missing, or has an unknown key or a wrong type.
    """
    scale: Scale = _typed(path, Scale, _read(path, "scale"))
    return scale


def spec_file(type_: SpecType, name: str) -> Path:
    """Return the file of a table or scale, the user's own before that of the package; it may not be there.

    Args:
        type_: Type of specification.
        name: Name of the file, without ``.yaml``.
    """
    return files_of(FOLDERS[type_]).get(name, PACKAGED / FOLDERS[type_] / f"{name}.yaml")


def _read(path: Path, type_: SpecType) -> DictConfig:
    if not path.is_file():
        known = {*files_of(FOLDERS[type_]), *(other.stem for other in path.parent.glob("*.yaml"))}
        raise ConfigError(
            f"there is no {type_} {path.stem}; there are: {', '.join(sorted(known))}.", key=type_
        )
    try:
        text = OmegaConf.load(path)
    except (YAMLError, OmegaConfBaseException) as error:
        raise ConfigError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(text, DictConfig):
        raise ConfigError(f"{path} must hold keys and values.")
    return text


def _typed(path: Path, schema: type, text: DictConfig) -> Any:
    try:
        merged = OmegaConf.merge(OmegaConf.structured(schema), text)
        missing = sorted(OmegaConf.missing_keys(merged))
        if missing:
            raise ConfigError(f"{path}: {missing[0]} is required.")
        return OmegaConf.to_object(merged)
    except OmegaConfBaseException as error:
        raise ConfigError(f"{path}: {error.full_key}: {str(error).splitlines()[0]}") from error
