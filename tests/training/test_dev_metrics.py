"""Correlations collected batch by batch, against scipy and torchmetrics."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import DictConfig
from scipy import stats
from torchmetrics import PearsonCorrCoef, SpearmanCorrCoef

from sts_lightning.errors import TrainingError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.training.dev_metrics import MONITOR, DevMetrics
from sts_lightning.workflows.train import train_in

PARTS = {"one": slice(0, 130), "two": slice(130, 150), "three": slice(150, 300)}


def pairs() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    gold = torch.randint(0, 6, (300,), generator=generator).float()
    return gold / 5 + torch.randn(300, generator=generator), gold


def collected() -> DevMetrics:
    return collected_with(*pairs())


def collected_with(cosines: torch.Tensor, gold: torch.Tensor) -> DevMetrics:
    metrics = DevMetrics()
    for batch in zip(cosines.split(128), gold.split(128), strict=True):
        metrics.update(*batch)
    return metrics


def test_dev_pairs_of_one_kind_have_the_values_of_torchmetrics_to_the_bit() -> None:
    with warnings.catch_warnings(action="ignore"):
        spearman, pearson = SpearmanCorrCoef(), PearsonCorrCoef()
    for batch in zip(*(column.split(128) for column in pairs()), strict=True):
        spearman.update(*batch)
        pearson.update(*batch)
    found = collected().compute({})
    assert found == {MONITOR: spearman.compute(), "dev/pearson": pearson.compute()}


def test_a_suite_has_the_mean_over_its_parts_however_batches_fall() -> None:
    found = collected().compute(PARTS)
    cosines, gold = pairs()
    expected = {name: stats.spearmanr(cosines[rows], gold[rows]).statistic for name, rows in PARTS.items()}
    assert {name: found[f"dev/{name}"].item() for name in PARTS} == pytest.approx(expected, abs=1e-6)
    assert found[MONITOR].item() == pytest.approx(sum(expected.values()) / 3, abs=1e-6)
    pearson = [stats.pearsonr(cosines[rows], gold[rows]).statistic for rows in PARTS.values()]
    assert found["dev/pearson"].item() == pytest.approx(sum(pearson) / 3, abs=1e-6)


def test_identical_sentences_are_tied_at_one() -> None:
    cosines, gold = pairs()
    same = np.zeros(300, dtype=bool)
    same[::3] = True
    found = collected_with(cosines, gold).compute({}, same)
    expected = np.where(same, 1.0, cosines.numpy())
    assert found[MONITOR].item() == pytest.approx(stats.spearmanr(expected, gold).statistic, abs=1e-6)
    assert found["dev/pearson"].item() == pytest.approx(stats.pearsonr(expected, gold).statistic, abs=1e-6)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_training_and_report_agree_on_identical_sentences(
    precision: str, config: Callable[..., DictConfig], tmp_path: Path
) -> None:
    rng, words = np.random.default_rng(0), ["a", "quick", "small", "cat", "sees", "the", "green", "house"]
    rows = ["sentence1,sentence2,score"]
    for number in range(120):
        first, second = (" ".join(rng.choice(words, rng.integers(3, 30))) for _ in range(2))
        same = number % 2 == 1
        rows.append(f"{first},{first if same else second},{rng.uniform(4, 5) - 4 * (not same):.3f}")
    (tmp_path / "pairs.csv").write_text("\n".join(rows) + "\n")
    data = ["data=pairs_file", f"path={tmp_path}/pairs.csv", "data.dev_fraction=0.5", "data.batch_size=16"]
    short = ["model=tiny_bert", "trainer.max_steps=1", "logger=csv", f"precision={precision}"]
    run = RunFolder(tmp_path / "run")
    train_in(run.path, config(*data, *short))
    trained, reported = run.history()[-1][MONITOR], run.metrics().dev
    assert reported is not None
    assert trained == pytest.approx(reported["spearman"], abs=0.5)  # the other 30 pairs in bfloat16


def test_pairs_are_forgotten() -> None:
    metrics = collected()
    metrics.compute({})
    metrics.update(torch.tensor([0.1, 0.2, 0.3]), torch.tensor([3.0, 2.0, 1.0]))
    assert metrics.compute({})[MONITOR].item() == pytest.approx(-1, abs=1e-5)


def test_a_cosine_without_a_rank_ends_the_run() -> None:
    metrics, (cosines, gold) = DevMetrics(), pairs()
    cosines[7] = float("nan")
    metrics.update(cosines, gold)
    with pytest.raises(TrainingError, match="the cosines of 1 of 300 dev pairs are NaN or infinite"):
        metrics.compute({})
