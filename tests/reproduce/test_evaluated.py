"""Tables whose trained rows are evaluated again."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.errors import ConfigError
from sts_lightning.reproduce.evaluated import evaluated_again
from sts_lightning.reproduce.plan import Cell, Table
from sts_lightning.reproduce.run import groups
from sts_lightning.reproduce.spec import RowSpec, load_spec
from tests.conftest import CONF

OVERRIDES = ["quantization=none", "precision=32-true"]


@pytest.mark.slow
def test_trained_rows_are_evaluated_with_the_settings(tmp_path: Path) -> None:
    spec = load_spec(CONF / "reproduce" / "pcc_table2.yaml")
    before = Table(spec, tmp_path)
    after = Table(evaluated_again(spec, OVERRIDES), tmp_path)
    cell = Cell("Pcc-tuning (SUM)", "mistral7b")
    trained, evaluated = before.seed_runs(cell), after.seed_runs(cell)
    assert [run.entry for run in evaluated] == ["eval"] * 3
    assert [run.after for run in evaluated] == [run.folder for run in trained]
    assert all(set(OVERRIDES) <= set(run.overrides) for run in evaluated)

    def by_entry(table: Table, entry: str) -> set[Path]:
        return {run.folder for group, _ in groups(table) for run in group if run.entry == entry}

    assert by_entry(after, "train") == by_entry(before, "train")  # nothing is trained twice
    again = by_entry(after, "eval") - by_entry(before, "eval")
    assert len(again) == len(by_entry(before, "train"))


def test_names_shown_and_published_values_stay() -> None:
    spec = load_spec(CONF / "reproduce" / "pcc_table2.yaml")
    again = evaluated_again(spec, OVERRIDES)
    assert [name for name, row in again.rows.items() if row.shown] == list(spec.rows)
    assert again.published == spec.published
    assert again.title == f"{spec.title}, evaluated with quantization=none precision=32-true"


@pytest.mark.parametrize("model", [None, "minilm"])
def test_a_row_with_a_model_of_its_own_is_evaluated_after_its_own_training(
    model: str | None, tmp_path: Path
) -> None:
    spec = load_spec(CONF / "reproduce" / "regression_table3.yaml")
    own = [name for name, row in spec.rows.items() if row.model and row.trains]
    before, after = (
        Table(table, tmp_path, model=model) for table in (spec, evaluated_again(spec, OVERRIDES))
    )
    trained = {cell.row: before.seed_runs(cell) for cell in before.cells}
    again = {cell.row: after.seed_runs(cell) for cell in after.cells}
    for name in own:
        assert [run.after for run in again[name]] == [run.folder for run in trained[name]]


def test_preparations_and_evaluations_stay() -> None:
    spec = load_spec(CONF / "reproduce" / "pcc_table8.yaml")
    again = evaluated_again(spec, OVERRIDES)
    assert {row.after for row in again.rows.values() if row.trains} == {"stage1"}
    spec.rows = {"a": RowSpec(), "b": RowSpec(trains=False, after="a", overrides=["suite=transfer"])}
    rows = evaluated_again(spec, OVERRIDES).rows
    assert rows["b"] == RowSpec(trains=False, after="(a, trained)", overrides=["suite=transfer"])


@pytest.mark.parametrize(("table", "reason"), [("pcc_table7", "memory"), ("rank_table1", "dev, std")])
def test_columns_of_training_are_rejected(table: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        evaluated_again(load_spec(CONF / "reproduce" / f"{table}.yaml"), OVERRIDES)
