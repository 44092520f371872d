from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import rel_entr, softmax

from sts_lightning.losses.similarity_distillation import SimilarityDistillationLoss
from sts_lightning.papers.losses.rankcse import RankCSELoss
from tests.support.loss_cases import batch

TEACHER = torch.rand(9, 9, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def cosines(views: torch.Tensor) -> np.ndarray:
    unit = views.numpy() / np.linalg.norm(views.numpy(), axis=2, keepdims=True)
    values: np.ndarray = unit[0] @ unit[1].T
    return values


def test_kl_is_scipys_relative_entropy() -> None:
    loss = SimilarityDistillationLoss(temperature=0.1, teacher_temperature=0.2)
    views, _ = batch(loss, 9)
    wanted, found = softmax(TEACHER.numpy() / 0.2, axis=1), softmax(cosines(views) / 0.1, axis=1)
    expected = rel_entr(wanted, found).sum(axis=1).mean()
    assert loss(views, teacher=TEACHER).item() == pytest.approx(expected)


def test_mse_is_that_of_the_matrices() -> None:
    loss = SimilarityDistillationLoss("mse")
    views, _ = batch(loss, 9)
    expected = np.mean((cosines(views) - TEACHER.numpy()) ** 2)
    assert loss(views, teacher=TEACHER).item() == pytest.approx(expected)


def test_kl_is_rankcses_listnet_up_to_a_constant() -> None:
    loss = SimilarityDistillationLoss(teacher_temperature=0.025)
    ranking = RankCSELoss(distillation="listnet")
    values = []
    for seed in range(2):
        views, _ = batch(loss, 9, seed)
        terms = ranking.metrics(views, teacher=TEACHER)
        values.append(terms["distillation"] - loss(views, teacher=TEACHER))
    torch.testing.assert_close(values[0], values[1])


@pytest.mark.parametrize("comparison", ["kl", "mse"])
def test_a_student_equal_to_the_teacher_has_no_loss(comparison: Any) -> None:
    loss = SimilarityDistillationLoss(comparison)
    views, _ = batch(loss, 9)
    assert loss(views, teacher=torch.from_numpy(cosines(views))).item() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"comparison": "cosine"}, "comparison must be one of kl, mse"),
        ({"temperature": 0.0}, "^temperature must be positive"),
        ({"teacher_temperature": 0.0}, "^teacher_temperature must be positive"),
    ],
)
def test_rejects(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SimilarityDistillationLoss(**settings)


def test_an_absent_teacher_is_an_error() -> None:
    with pytest.raises(ValueError, match="needs teacher"):
        SimilarityDistillationLoss()(torch.randn(2, 3, 4))
