"""Ranks of test sentences' vectors, against a singular value decomposition."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from omegaconf import DictConfig

from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.start import train_in
from tests.conftest import SHORT_RUN


def test_the_rank_is_in_the_metrics_of_a_run(config: Callable[..., DictConfig], tmp_path: Path) -> None:
    train_in(tmp_path / "run", config(*SHORT_RUN, "trainer.max_steps=2", "evaluation.rank=true"))
    metrics = RunFolder(tmp_path / "run").metrics()
    ranks = metrics.details["rank"]
    assert metrics.scores["rank"] == ranks["average"] >= 1
    assert set(ranks["tasks"]) == set(metrics.test["tasks"])  # type: ignore[index]
