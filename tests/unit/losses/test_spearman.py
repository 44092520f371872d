from __future__ import annotations

import pytest
import torch
from scipy import stats

from sts_lightning.losses.spearman import SpearmanLoss, mid_ranks, soft_ranks
from tests.support.loss_cases import batch


def cosines(views: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cosine_similarity(views[0], views[1])


def test_cold_ranks_give_scipys_spearman() -> None:
    loss = SpearmanLoss(temperature=1e-5)
    views, labels = batch(loss, 50)
    assert labels is not None
    labels = labels.round()  # many ties
    expected = stats.spearmanr(cosines(views).numpy(), labels.numpy()).statistic
    assert loss(views, labels).item() == pytest.approx(1 - expected, abs=1e-6)


def test_hot_ranks_give_the_correlation_with_gold_ranks() -> None:
    loss = SpearmanLoss(temperature=1e4)
    views, labels = batch(loss, 50)
    assert labels is not None
    expected = stats.pearsonr(cosines(views).numpy(), stats.rankdata(labels.numpy())).statistic
    assert loss(views, labels).item() == pytest.approx(1 - expected, abs=1e-5)


def test_mid_ranks_are_scipys() -> None:
    values = torch.tensor([3.0, 1.0, 3.0, 2.0, 3.0, 1.0])
    assert mid_ranks(values).tolist() == stats.rankdata(values.numpy()).tolist()


def test_soft_ranks_by_hand() -> None:
    # Differences of 1 at temperature 1: sigmoid(1) = 0.7310586, sigmoid(0) = 0.5.
    ranks = soft_ranks(torch.tensor([0.0, 1.0], dtype=torch.float64), 1.0)
    assert ranks.tolist() == pytest.approx([1.2689414, 1.7310586])
    assert ranks.sum().item() == pytest.approx(3.0)


def test_only_the_order_of_scores_matters() -> None:
    loss = SpearmanLoss()
    views, labels = batch(loss)
    assert labels is not None
    torch.testing.assert_close(loss(views, labels), loss(views, labels.exp()))


def test_affine_in_the_cosines() -> None:
    loss = SpearmanLoss()
    x, labels = torch.rand(9, dtype=torch.float64) / 4, torch.rand(9)

    def views(values: torch.Tensor) -> torch.Tensor:
        first = torch.tensor([1.0, 0.0], dtype=torch.float64).expand(len(values), 2)
        return torch.stack([first, torch.stack([values, (1 - values**2).sqrt()], dim=1)])

    torch.testing.assert_close(loss(views(x), labels), loss(views(2 * x + 0.3), labels))


@pytest.mark.parametrize("size", [8, 64, 256])
def test_cosines_that_are_equal_but_for_rounding_have_no_gradient(size: int) -> None:
    torch.manual_seed(0)
    first = torch.randn(size, 32)
    views = torch.stack([first, first + 3e-4 * torch.randn(size, 32)]).requires_grad_()
    value = SpearmanLoss()(views, 5 * torch.rand(size))
    value.backward()
    assert value.item() == 1
    assert views.grad is not None
    assert not views.grad.any()


def test_rejects_a_temperature_of_zero() -> None:
    with pytest.raises(ValueError, match="temperature must be positive"):
        SpearmanLoss(temperature=0.0)
