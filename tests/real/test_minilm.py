"""The pre-trained encoder on the real data, against published scores."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from datasets import concatenate_datasets
from omegaconf import DictConfig

from sts_lightning import runs
from sts_lightning.data.senteval import STSTask, load_sickr, load_sts_tasks
from sts_lightning.evaluation.sts import evaluate_sts
from sts_lightning.models.offline import packaged_copy
from sts_lightning.train import train_in
from sts_lightning.training.history import read_history

Config = Callable[..., DictConfig]


@pytest.fixture(autouse=True)
def _needs_the_packaged_model(config: Config) -> None:
    if packaged_copy(*config().model.name.split("@")) is None:
        pytest.skip("needs the extra `offline`")


def test_published_scores(data_root: str, config: Config) -> None:
    cfg = config()
    encoder = runs.build_encoder(cfg.model, cfg.prompt).eval()
    splits = [load_sickr(data_root, split) for split in ("train", "trial", "test")]
    whole_sick = STSTask("SICK-R, all pairs", {"all": concatenate_datasets(splits)})
    result = evaluate_sts(encoder, [*load_sts_tasks(data_root), whole_sick])
    scores = {name: task["spearman"] for name, task in result["tasks"].items()}
    expected = {
        "STS12": 72.37,
        "STS13": 80.60,
        "STS14": 75.60,
        "STS15": 85.39,
        "STS16": 78.99,
        "STSB": 82.03,
        "SICKR": 77.15,
        "SICK-R, all pairs": 77.58,
    }
    assert scores == pytest.approx(expected, abs=0.02)
    assert result["tasks"]["SICK-R, all pairs"]["pairs"] == 9927


@pytest.mark.parametrize(
    "overrides", [["loss=pearson", "data=sts"], ["loss=infonce", "data=nli_triplets", "data.batch_size=32"]]
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
