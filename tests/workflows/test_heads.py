"""A grid of heads against the runs of its cells, one by one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from sts_lightning.config.build import build
from sts_lightning.errors import ConfigError, FinishedRunError, UserError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading import load
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.head_cells import Cell, compose_cells
from sts_lightning.workflows.heads import check_cell, train_heads
from sts_lightning.workflows.train import train_in
from tests.conftest import SHORT_RUN
from tests.scenarios.helpers import metrics

FROZEN = [
    *SHORT_RUN,
    "freeze=encoder",
    "loss=smooth_k2",
    "optim.lr=1e-2",
    "data.batch_size=16",
    "data.train_size=250",
    "trainer.max_epochs=2",
    "trainer.limit_train_batches=14",
    "trainer.max_steps=25",
    "trainer.log_every_n_steps=1",
    "trainer.gradient_clip_val=0.5",
    "logger=csv",
]
"""Two epochs of the same pairs, both cut short; clipping that takes effect; the last batch is smaller."""

VARIED = ["loss=translated_relu,smooth_k2", "loss.k=1,3", "optim.lr=1e-2,1e-3", "seed=1,2"]


def last(run: Path) -> dict[str, torch.Tensor]:
    state: dict[str, torch.Tensor] = RunFolder(run).read_checkpoint("last")["state_dict"]
    return state


@pytest.mark.slow
def test_equals_the_runs_one_by_one(tmp_path: Path) -> None:
    cells = compose_cells([*FROZEN, *VARIED])
    assert len(cells) == 16
    grid = train_heads(cells, tmp_path / "grid")
    for number in (0, 3, 9, 14):  # both losses, both k, both rates, both seeds
        cell, head = cells[number], grid.heads[number]
        alone = tmp_path / cell.name
        train_in(alone, cell.cfg)
        together = tmp_path / "grid" / cell.name
        expected, found = last(alone), last(together)
        assert expected.keys() == found.keys()
        for name, value in expected.items():
            torch.testing.assert_close(found[name], value, rtol=0, atol=1e-6)
        course = [
            row["train/loss"] for row in RunFolder(alone).history() if row.get("train/loss") is not None
        ]
        assert len(course) == 25
        np.testing.assert_allclose(head.losses, course, rtol=0, atol=1e-6)
        assert metrics(together)["dev"] == pytest.approx(metrics(alone)["dev"], abs=1e-4)
