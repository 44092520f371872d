"""`benchmarks/compositions.py`: divisions of a batch against one process, a few of its cells."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from sts_lightning.losses import all_losses
from tests.conftest import ROOT

CELLS = {
    ("BERT", "DDP, 2 nodes"),
    ("BERT", "FSDP, 3, chunks, micro batches"),
    ("NF4", "FSDP, 2, micro batches, checkpointing"),
}


@pytest.fixture(scope="module")
def compositions() -> ModuleType:
    path = ROOT / "benchmarks" / "compositions.py"
    specification = importlib.util.spec_from_file_location("compositions", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["compositions"] = module  # its dataclass looks itself up
    specification.loader.exec_module(module)
    return module


def test_every_loss_has_a_row_and_every_composition_its_processes(
    compositions: ModuleType, tmp_path: Path
) -> None:
    assert set(all_losses()) <= compositions.rows(tmp_path).keys()
    assert len(compositions.rows(tmp_path)) * len(compositions.COMPOSITIONS) >= 200
    fsdp = [column for column in compositions.COMPOSITIONS if "trainer.strategy=fsdp" in column.overrides]
    assert {column.processes * column.nodes for column in fsdp} == {2, 3}
    assert {column.model for column in fsdp} == set(compositions.MODELS)


def test_the_difference_is_relative_to_the_largest_entry(compositions: ModuleType) -> None:
    one = [{"a": torch.tensor([1.0, -4.0]), "b": torch.tensor([2.0])}, {"a": torch.ones(1)}]
    two = [{"a": torch.tensor([1.0, -4.0]), "b": torch.tensor([2.4])}, {"a": torch.ones(1)}]
    assert compositions.difference(one, two) == pytest.approx(0.1)
    assert compositions.difference(one, one) == 0
    assert compositions.wrong(
        compositions.difference([{"a": torch.full((2,), 1e-13)}], [{"a": torch.zeros(2)}])
    )


def test_cells_equal_one_process(compositions: ModuleType, tmp_path: Path) -> None:
    """A head that trains, shared negatives, a companion, and 4-bit weights; the grid has the others."""
    columns = [column for column in compositions.COMPOSITIONS if (column.model, column.name) in CELLS]
    assert len(columns) == len(CELLS)
    everything = compositions.rows(compositions.store_teacher(tmp_path / "teacher"))
    wanted = {name: everything[name] for name in ("smooth_k2", "sigmoid", "infonce, queue", "infocse")}
    found = list(compositions.compare(tmp_path, wanted, columns))
    apart = {(row, column.name): cell for row, column, cell in found}
    assert len(apart) == 12
    assert "needs a model like BERT" in apart.pop(("infocse", "FSDP, 2, micro batches, checkpointing"))
    assert all(isinstance(cell, float) and cell <= compositions.TOLERANCE for cell in apart.values()), apart


def test_the_page_numbers_the_reasons(compositions: ModuleType) -> None:
    cells = ["no <form>", 2.4e-7, *["no <form>"] * (len(compositions.COMPOSITIONS) - 2)]
    lines = compositions.page({"pearson": cells}).splitlines()
    assert f"{len(cells)} cells: 1 equal, {len(cells) - 1} rejected, 0 different." in lines
    assert next(line for line in lines if line.startswith("| pearson")).startswith(
        "| pearson | rejected (1) | 2e-07 | rejected (1) |"
    )
    assert lines[-1] == "1. no &lt;form>"
