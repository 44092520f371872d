"""Scores of heads against predictions written out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from sts_lightning.config.build import build
from sts_lightning.data.module import SentenceDataModule
from sts_lightning.models.loading import load
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.head_cells import compose_cells
from sts_lightning.workflows.head_report import RESULTS
from sts_lightning.workflows.heads import train_heads
from tests.scenarios.helpers import metrics
from tests.workflows.test_heads import FROZEN


@pytest.mark.slow
def test_scores_are_those_of_the_written_head_on_the_vectors_of_its_run(tmp_path: Path) -> None:
    cells = compose_cells([*FROZEN, "loss.k=1,3"])
    grid = train_heads(cells, tmp_path)
    run = tmp_path / cells[1].name
    state = RunFolder(run).read_checkpoint("best")["state_dict"]
    weight, bias = state["loss.head.weight"][0].numpy(), state["loss.head.bias"].numpy()
    data = build("data", cells[1].cfg.data, SentenceDataModule)
    data.setup()
    encoder = load(run)
    u, v = (encoder.encode(list(data.dev[name])) for name in ("sentence1", "sentence2"))
    predicted = np.concatenate([u, v, abs(u - v)], axis=1) @ weight + bias
    expected = 100 * stats.spearmanr(predicted, data.dev["label"]).statistic
    assert grid.heads[1].scores.dev["spearman"] == pytest.approx(expected, abs=1e-6)
    assert metrics(run)["head"]["dev"]["spearman"] == pytest.approx(expected, abs=1e-6)
    cosines = (u * v).sum(axis=1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
    assert grid.cosine.row()["dev"] == pytest.approx(
        100 * stats.spearmanr(cosines, data.dev["label"]).statistic
    )
    record = json.loads((tmp_path / RESULTS).read_text())
    assert [head["loss.k"] for head in record["heads"]] == ["1", "3"]
    assert record["heads"][1]["dev"] == grid.heads[1].scores.row()["dev"]
    assert record["heads"][0]["last_loss"] != record["heads"][1]["last_loss"]
