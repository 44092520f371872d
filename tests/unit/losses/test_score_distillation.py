from __future__ import annotations

import pytest
import torch

from sts_lightning.losses.cosine_mse import CosineMSELoss, ScoreDistillationLoss
from tests.support.loss_cases import batch


def test_is_the_regression_of_the_teachers_similarity_of_each_pair() -> None:
    loss = ScoreDistillationLoss()
    views, _ = batch(loss, 9)
    teacher = torch.rand(9, 9, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected = CosineMSELoss()(views, 5 * teacher.diagonal())
    torch.testing.assert_close(loss(views, teacher=teacher), expected)
    torch.testing.assert_close(loss(views, torch.rand(9), teacher=teacher), expected)


def test_by_hand() -> None:
    views = torch.tensor([[[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]])  # cosines 1 and 0
    teacher = torch.tensor([[0.5, 9.0], [9.0, 0.3]])
    value = ScoreDistillationLoss()(views, teacher=teacher)
    assert value.item() == pytest.approx((0.5**2 + 0.3**2) / 2)


def test_an_absent_teacher_is_an_error() -> None:
    with pytest.raises(ValueError, match="needs teacher"):
        ScoreDistillationLoss()(torch.randn(2, 3, 4))
