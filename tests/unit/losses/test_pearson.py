from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

from sts_lightning.losses.pearson import PearsonLoss, pearson_correlation


def batch(size: int = 12, dim: int = 7, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, size, dim, generator=generator), 5 * torch.rand(size, generator=generator)


def correlation(views: torch.Tensor, labels: torch.Tensor) -> float:
    cosines = torch.nn.functional.cosine_similarity(views[0].double(), views[1].double())
    return float(stats.pearsonr(cosines.numpy(), labels.double().numpy()).statistic)


@pytest.mark.parametrize("size", [2, 3, 12, 100])
def test_is_one_minus_scipys_correlation(size: int) -> None:
    views, labels = batch(size)
    assert PearsonLoss()(views, labels).item() == pytest.approx(1 - correlation(views, labels), abs=2e-6)


def test_by_hand() -> None:
    # Cosines 1, 0, -1 against scores 4, 2, 3: r = cov / (sd sd) = 1 / sqrt(2 * 2) = 0.5.
    views = torch.tensor([[[1.0, 0.0]] * 3, [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]])
    assert PearsonLoss()(views, torch.tensor([4.0, 2.0, 3.0])).item() == pytest.approx(0.5, abs=1e-6)


def test_invariant_to_scale_and_shift_of_scores() -> None:
    views, labels = batch()
    loss = PearsonLoss()
    torch.testing.assert_close(loss(views, labels), loss(views, 3 * labels - 7), atol=1e-5, rtol=0)


@pytest.mark.parametrize("what", ["labels", "cosines"])
def test_constant_batch_has_loss_one_and_no_gradient(what: str) -> None:
    views, labels = batch()
    if what == "labels":
        labels = torch.full_like(labels, 3.0)
    else:
        views = torch.ones_like(views)
    views.requires_grad_()
    loss = PearsonLoss()(views, labels)
    loss.backward()
    assert loss.item() == 1.0
    assert views.grad is not None
    assert torch.equal(views.grad, torch.zeros_like(views))


@pytest.mark.parametrize("constant", [0.5, math.nan])
def test_a_nan_beside_a_constant_list_is_propagated(constant: float) -> None:
    broken = torch.tensor([0.1, math.nan, 0.3])
    assert pearson_correlation(broken, torch.full((3,), constant)).isnan()
    assert pearson_correlation(torch.full((3,), constant), broken).isnan()
