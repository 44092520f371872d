"""`benchmarks/compositions.py` and its grid: divisions of a batch against one process, a few of its cells."""

from __future__ import annotations

from pathlib import Path

import composition_grid
import compositions
import pytest
import torch

from sts_lightning.losses import all_losses

CELLS = {
    ("BERT", "DDP, 2 nodes"),
    ("BERT", "FSDP, 3, chunks, micro batches"),
    ("NF4", "FSDP, 2, micro batches, checkpointing"),
}


def test_every_loss_has_a_row_and_every_composition_its_processes(tmp_path: Path) -> None:
    assert set(all_losses()) <= composition_grid.rows(tmp_path).keys()
    assert len(composition_grid.rows(tmp_path)) * len(composition_grid.COMPOSITIONS) >= 200
    fsdp = [column for column in composition_grid.COMPOSITIONS if "trainer.strategy=fsdp" in column.overrides]
    assert {column.processes * column.nodes for column in fsdp} == {2, 3}
    assert {column.model for column in fsdp} == set(composition_grid.MODELS)


def test_the_difference_is_relative_to_the_largest_entry() -> None:
    one = [{"a": torch.tensor([1.0, -4.0]), "b": torch.tensor([2.0])}, {"a": torch.ones(1)}]
    two = [{"a": torch.tensor([1.0, -4.0]), "b": torch.tensor([2.4])}, {"a": torch.ones(1)}]
    assert compositions.difference(one, two) == pytest.approx(0.1)
    assert compositions.difference(one, one) == 0
    assert compositions.wrong(
        compositions.difference([{"a": torch.full((2,), 1e-13)}], [{"a": torch.zeros(2)}])
    )


def test_cells_equal_one_process(tmp_path: Path) -> None:
    """A head that trains, shared negatives, a companion, and 4-bit weights; the grid has the others."""
    columns = [column for column in composition_grid.COMPOSITIONS if (column.model, column.name) in CELLS]
    assert len(columns) == len(CELLS)
    everything = composition_grid.rows(compositions.store_teacher(tmp_path / "teacher"))
    wanted = {name: everything[name] for name in ("smooth_k2", "sigmoid", "infonce, queue", "infocse")}
    found = list(compositions.compare(tmp_path, wanted, columns))
    apart = {(row, column.name): cell for row, column, cell in found}
    assert len(apart) == 12
    assert "needs a model like BERT" in apart.pop(("infocse", "FSDP, 2, micro batches, checkpointing"))
    assert all(isinstance(cell, float) and cell <= compositions.TOLERANCE for cell in apart.values()), apart


def test_the_page_numbers_the_reasons() -> None:
    cells = ["no <form>", 2.4e-7, *["no <form>"] * (len(composition_grid.COMPOSITIONS) - 2)]
    lines = compositions.page({"pearson": cells}).splitlines()
    assert f"{len(cells)} cells: 1 equal, {len(cells) - 1} rejected, 0 different." in lines
    assert next(line for line in lines if line.startswith("| pearson")).startswith(
        "| pearson | rejected (1) | 2e-07 | rejected (1) |"
    )
    assert lines[-1] == "1. no &lt;form>"
