"""What a table consists of."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from sts_lightning.errors import ConfigError

CITED = "cited"
"""The model under which ``published`` lists systems that are not run here."""


@dataclass
class Search:
    """A choice by dev score, made once for each row before its seeds run.

    Attributes:
        candidates: What is tried: overrides by a name for them; nothing is chosen if empty.
        overrides: What differs from the row's own runs in all of these, such as a shorter schedule.
    """

    candidates: dict[str, list[str]] = field(default_factory=dict)
    overrides: list[str] = field(default_factory=list)


@dataclass
class RowSpec:
    """One system of a table.

    Attributes:
        overrides: Of train.py; for a row without training those of eval.py.
        trains: Whether it is trained.
        after: The preparatory run, or the row, whose weights it starts from, or evaluates, if any; those of
            the row's run with the same seed.
        models: The models that it is run with; all of the table's if empty.
        at: Further overrides with a model, by the model's name.
        shown: Whether it stands in the table; else it is run for the rows after it.
        search: Whether the table's search is made for it.
        choice_of: A row whose choice it shares, in place of a search of its own.
    """

    overrides: list[str] = field(default_factory=list)
    trains: bool = True
    after: str | None = None
    models: list[str] = field(default_factory=list)
    at: dict[str, list[str]] = field(default_factory=dict)
    shown: bool = True
    search: bool = True
    choice_of: str | None = None


@dataclass
class Requirements:
    """What each run of a table takes.

    Attributes:
        gpus: How many; 0: none.
        memory: Of each GPU, in GB.
        hours: Roughly, for a run.
    """

    gpus: int = 0
    memory: int = 0
    hours: float = MISSING


@dataclass
class TableSpec:
    """A table.

    Attributes:
        title: Its heading.
        seeds: One run of each trained row for each.
        needs: What a run takes.
        like: A table whose spec this one starts from.
        models: Choices of the group model, each with all rows; empty: the overrides name the model.
        columns: What is shown: ``dev``, test sets, ``average``, ``std`` (of the average over seeds) or
            ``memory`` (GB); what the runs have if empty.
        overrides: Of all runs of train.py.
        search: The choice by dev score.
        before: Preparatory runs by name, made once for each model: overrides of train.py.
        rows: The systems by name.
        published: Published values of the columns, by model and row; under ``cited`` those of systems that
            are not run here. Without models, the model's name is ``published``.
        baselines: Rows that the others of the same model are compared with.
    """

    title: str = MISSING
    seeds: list[int] = MISSING
    needs: Requirements = field(default_factory=Requirements)
    like: str | None = None
    models: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    overrides: list[str] = field(default_factory=list)
    search: Search = field(default_factory=Search)
    before: dict[str, list[str]] = field(default_factory=dict)
    rows: dict[str, RowSpec] = field(default_factory=dict)
    published: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    baselines: list[str] = field(default_factory=list)


@dataclass
class Scale:
    """What a smaller model changes in the rows of every table.

    Attributes:
        hours: Of a run, roughly.
        seeds: In place of the table's.
        overrides: Of all runs of train.py.
        experiments: Of the runs of an experiment.
        evaluate: Of all runs of eval.py.
    """

    hours: float = MISSING
    seeds: list[int] = field(default_factory=list)
    overrides: list[str] = field(default_factory=list)
    experiments: dict[str, list[str]] = field(default_factory=dict)
    evaluate: list[str] = field(default_factory=list)


def load_spec(path: Path) -> TableSpec:
    """Read a spec and check that its parts refer to each other.

    Raises:
        ConfigError: It does not exist, has an unknown key or a wrong type, or names something it lacks.
    """
    text = _read(path, "table")
    if text.get("like") is not None:
        base = _read(path.with_stem(text["like"]), "table")
        base.merge_with(text)
        text = base
    spec = _typed(path, TableSpec, text)
    assert isinstance(spec, TableSpec)
    if not spec.rows and not spec.published:
        raise ConfigError(f"{path}: rows is required.")
    for name in set(spec.before) & set(spec.rows):
        raise ConfigError(f"{path}: {name} is the name of a preparation and of a row; rename one.")
    for name, row in spec.rows.items():
        if row.after is not None and row.after not in {*spec.before, *(set(spec.rows) - {name})}:
            raise ConfigError(f"{path}: rows.{name}.after={row.after} is not among before or the other rows.")
        if row.choice_of is not None and row.choice_of not in spec.rows:
            raise ConfigError(f"{path}: rows.{name}.choice_of={row.choice_of} is not among rows.")
    for name in spec.baselines:
        if name not in spec.rows:
            raise ConfigError(f"{path}: the baseline {name} is not among rows.")
    for model, systems in spec.published.items():
        for name, values in systems.items():
            if model != CITED and name not in spec.rows:
                raise ConfigError(f"{path}: published.{model}.{name} is not among rows.")
            if len(values) != len(spec.columns):
                raise ConfigError(
                    f"{path}: published.{model}.{name} has {len(values)} values, and there are "
                    f"{len(spec.columns)} columns."
                )
    return spec


def load_scale(path: Path) -> Scale:
    """Read what a smaller model changes.

    Raises:
        ConfigError: There is no such file, or it has an unknown key or a wrong type.
    """
    scale = _typed(path, Scale, _read(path, "scale"))
    assert isinstance(scale, Scale)
    return scale


def _read(path: Path, what: str) -> DictConfig:
    if not path.is_file():
        known = ", ".join(sorted(other.stem for other in path.parent.glob("*.yaml")))
        raise ConfigError(f"there is no {what} {path.stem}; there are: {known or 'none'}.")
    try:
        text = OmegaConf.load(path)
    except (YAMLError, OmegaConfBaseException) as error:
        raise ConfigError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(text, DictConfig):
        raise ConfigError(f"{path} must hold keys and values.")
    return text


def _typed(path: Path, kind: type, text: DictConfig) -> Any:
    try:
        merged = OmegaConf.merge(OmegaConf.structured(kind), text)
        missing = sorted(OmegaConf.missing_keys(merged))
        if missing:
            raise ConfigError(f"{path}: {missing[0]} is required.")
        return OmegaConf.to_object(merged)
    except OmegaConfBaseException as error:
        raise ConfigError(f"{path}: {error.full_key}: {str(error).splitlines()[0]}") from error
