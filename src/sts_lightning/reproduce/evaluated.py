"""Tables whose trained rows are evaluated again, with other settings than in training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sts_lightning.errors import ConfigError
from sts_lightning.reproduce.spec import RowSpec, TableSpec

OF_TRAINING = ("dev", "std", "memory", "rank")
"""Columns that an evaluation cannot fill, or not for all rows."""


def evaluated_again(spec: TableSpec, overrides: Sequence[str]) -> TableSpec:
    """Return a specification that reports evaluations of its trained rows instead of their own scores.

    Pcc-tuning trains on a quantised base, and reports the adapter on the base as it is: ``quantization=none
    precision=32-true``.

    Args:
        spec: Specification of the table.
        overrides: Overrides of eval.py.

    Raises:
        ConfigError: The table has a column of training alone, or no row is trained.
    """
    columns = [column for column in spec.columns if column in OF_TRAINING]
    if columns:
        raise ConfigError(f"{spec.title}: {', '.join(columns)} cannot be evaluated again.")
    if not any(row.trains for row in spec.rows.values()):
        raise ConfigError(f"{spec.title}: no row is trained, so there is nothing to evaluate again.")

    def trained(name: str | None) -> str | None:
        return f"({name}, trained)" if name in spec.rows and spec.rows[name].trains else name

    rows: dict[str, RowSpec] = {}
    for name, row in spec.rows.items():
        run = replace(row, after=trained(row.after), choice_of=trained(row.choice_of))
        rows[trained(name) or name] = replace(run, shown=row.shown and not row.trains)
        if row.trains and row.shown:
            rows[name] = RowSpec(
                list(overrides), trains=False, after=trained(name), models=row.models, model=row.model
            )
    return replace(spec, title=f"{spec.title}, evaluated with {' '.join(overrides)}", rows=rows)
