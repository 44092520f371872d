"""The pre-trained encoder on the real data, against published scores."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig

from sts_lightning.data.readers.sts_sets import load_sts_tasks
from sts_lightning.evaluation.sts import evaluate_sts
from sts_lightning.models.loading.hub import packaged_copy
from sts_lightning.models.loading.run import build_encoder
from sts_lightning.runs.history import read_history
from sts_lightning.workflows.command import train_in

Config = Callable[..., DictConfig]


@pytest.fixture(autouse=True)
def _needs_the_packaged_model(config: Config) -> None:
    if packaged_copy(*config().model.name.split("@")) is None:
        pytest.skip("needs the extra `offline`")


def test_scores_of_two_sets(data_root: str, config: Config) -> None:
    """Published: https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2 on MTEB."""
    cfg = config()
    encoder = build_encoder(cfg.model, cfg.prompt)
    tasks = [task for task in load_sts_tasks(data_root) if task.name in ("STS13", "STS16")]
    scores = {name: task["spearman"] for name, task in evaluate_sts(encoder, tasks)["tasks"].items()}
    assert scores == pytest.approx({"STS13": 80.60, "STS16": 78.99}, abs=0.02)


@pytest.mark.parametrize(
    "overrides",
    [
        ["loss=pearson", "data=sts"],  # Pcc-tuning
        ["loss=smooth_k2", "data=sts", "optim.lr=1e-5"],  # regression
        ["loss=infonce", "data=sentences", "regularizer=rank_reduction", "data.batch_size=32"],
        ["loss=infonce", "data=nli_triplets", "data.batch_size=32"],  # SimCSE, with which all compare
    ],
)
def test_a_few_steps_on_the_real_corpora(
    overrides: list[str], data_root: str, config: Config, tmp_path: Path
) -> None:
    cfg = config(
        *overrides,
        f"data_root={data_root}",
        "trainer.max_steps=4",
        "trainer.log_every_n_steps=1",
        "evaluation.final=false",
    )
    dev = train_in(tmp_path, cfg)
    result = json.loads((tmp_path / "metrics.json").read_text())
    assert result["dev_untuned"] == pytest.approx(86.72, abs=0.02)
    assert dev == result["dev"]["spearman"] > 85
    assert result["test"] is None
    assert all(row["tokens_per_second"] > 0 for row in read_history(tmp_path / "history.csv")[1:])
