"""What a table consists of."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from omegaconf import MISSING, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.errors import ConfigError


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
        after: The preparatory run whose weights it starts from, if any.
        search: Whether the table's search is made for it.
        choice_of: A row whose choice it shares, in place of a search of its own.
    """

    overrides: list[str] = field(default_factory=list)
    trains: bool = True
    after: str | None = None
    search: bool = True
    choice_of: str | None = None


@dataclass
class TableSpec:
    """A table.

    Attributes:
        title: Its heading.
        seeds: One run of each trained row for each.
        overrides: Of all runs of train.py.
        search: The choice by dev score.
        before: Preparatory runs by name, made once: overrides of train.py.
        rows: The systems by name.
        baselines: Rows that the others are compared with.
    """

    title: str = MISSING
    seeds: list[int] = MISSING
    overrides: list[str] = field(default_factory=list)
    search: Search = field(default_factory=Search)
    before: dict[str, list[str]] = field(default_factory=dict)
    rows: dict[str, RowSpec] = MISSING
    baselines: list[str] = field(default_factory=list)


def load_spec(path: Path) -> TableSpec:
    """Read a spec and check that its parts refer to each other.

    Raises:
        ConfigError: It does not exist, has an unknown key or a wrong type, or names something it lacks.
    """
    if not path.is_file():
        known = ", ".join(sorted(other.stem for other in path.parent.glob("*.yaml")))
        raise ConfigError(f"there is no table {path.stem}; there are: {known or 'none'}.")
    try:
        merged = OmegaConf.merge(OmegaConf.structured(TableSpec), OmegaConf.load(path))
        missing = sorted(OmegaConf.missing_keys(merged))
        if missing:
            raise ConfigError(f"{path}: {missing[0]} is required.")
        spec = OmegaConf.to_object(merged)
    except OmegaConfBaseException as error:
        raise ConfigError(f"{path}: {error.full_key}: {str(error).splitlines()[0]}") from error
    assert isinstance(spec, TableSpec)
    for name, row in spec.rows.items():
        if row.after is not None and row.after not in spec.before:
            raise ConfigError(f"{path}: rows.{name}.after={row.after} is not among before.")
        if row.choice_of is not None and row.choice_of not in spec.rows:
            raise ConfigError(f"{path}: rows.{name}.choice_of={row.choice_of} is not among rows.")
    for name in spec.baselines:
        if name not in spec.rows:
            raise ConfigError(f"{path}: the baseline {name} is not among rows.")
    return spec
