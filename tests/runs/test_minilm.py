"""The pre-trained encoder on the real data, against published scores."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pandas as pd
import pytest
from omegaconf import DictConfig

from sts_lightning.data.readers.sts_sets import load_sts_tasks, load_stsb
from sts_lightning.data.table import Table
from sts_lightning.evaluation.sts import evaluate_sts
from sts_lightning.models.loading.hub import packaged_copy
from sts_lightning.models.loading.run import build_encoder
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.start import train_in

Config = Callable[..., DictConfig]

FEW = ["trainer.max_steps=4", "trainer.log_every_n_steps=1", "evaluation.final=false"]


def write_pairs(table: Table, path: Path) -> None:
    pd.DataFrame({**table.columns}).rename(columns={"label": "score"}).to_csv(path, index=False)


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


def test_a_few_steps_of_pcc_tuning(data_root: str, config: Config, tmp_path: Path) -> None:
    dev = train_in(tmp_path, config("loss=pearson", "data=sts", f"data_root={data_root}", *FEW))
    result = json.loads((tmp_path / "metrics.json").read_text())
    assert result["dev_untuned"] == pytest.approx(86.72, abs=0.02)
    assert dev == result["dev"]["spearman"] > 85
    assert result["test"] is None
    assert all(row["tokens_per_second"] > 0 for row in RunFolder(tmp_path).history()[1:])


@pytest.mark.parametrize(
    "overrides",
    [
        ["loss=smooth_k2", "data=pairs_file"],  # the regression paper
        ["loss=infonce", "data=sentences_file", "regularizer=rank_reduction"],
        # SimCSE, with which all compare
        ["loss=infonce", "data=triplets_file", "data.columns=[sent0,sent1,hard_neg]"],
    ],
    ids=lambda overrides: overrides[1],
)
def test_a_few_steps_of_other_recipes(
    overrides: list[str], data_root: str, config: Config, tmp_path: Path
) -> None:
    """On a hundred pairs of STS-B dev, since the whole would take most of the time."""
    dev, train = tmp_path / "dev.csv", tmp_path / "train.csv"
    write_pairs(load_stsb(data_root, "dev")[:100], dev)
    if "data=pairs_file" in overrides:
        write_pairs(load_stsb(data_root, "train")[:200], train)
    elif "data=triplets_file" in overrides:
        with (Path(data_root) / "nli" / "nli_triplets.csv").open(encoding="utf-8", newline="") as file:
            train.write_text("".join(islice(file, 201)), encoding="utf-8")
    else:
        train = tmp_path / "train.txt"
        train.write_text("\n".join(load_stsb(data_root, "train")["sentence1"][:200]))
    files = [f"path={train}", f"data.dev_path={dev}"]
    run = tmp_path / "run"
    score = train_in(run, config(*overrides, *files, "data.batch_size=32", *FEW))
    result = json.loads((run / "metrics.json").read_text())
    assert score == result["dev"]["spearman"] > 80
    assert result["dev_untuned"] > 80
