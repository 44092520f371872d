"""Correlations collected batch by batch, against scipy and torchmetrics."""

from __future__ import annotations

import warnings

import pytest
import torch
from scipy import stats
from torchmetrics import PearsonCorrCoef, SpearmanCorrCoef

from sts_lightning.errors import TrainingError
from sts_lightning.training.dev_metrics import MONITOR, DevMetrics

PARTS = {"one": slice(0, 130), "two": slice(130, 150), "three": slice(150, 300)}


def pairs() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    gold = torch.randint(0, 6, (300,), generator=generator).float()
    return gold / 5 + torch.randn(300, generator=generator), gold


def collected() -> DevMetrics:
    metrics = DevMetrics()
    for cosines, gold in zip(*(column.split(128) for column in pairs()), strict=True):
        metrics.update(cosines, gold)
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
