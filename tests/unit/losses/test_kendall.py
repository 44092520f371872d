from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

from sts_lightning.losses.kendall import KendallLoss, soft_tau
from tests.support.loss_cases import batch


def cosines(views: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cosine_similarity(views[0], views[1])


@pytest.mark.parametrize("ties", [False, True])
def test_cold_it_is_scipys_tau(ties: bool) -> None:
    loss = KendallLoss(temperature=1e-6)
    views, labels = batch(loss, 50)
    assert labels is not None
    labels = labels.round() if ties else labels
    expected = stats.kendalltau(cosines(views).numpy(), labels.numpy()).statistic
    assert loss(views, labels).item() == pytest.approx(1 - expected, abs=1e-6)


def test_cold_ties_of_both_lists_are_those_of_tau_b() -> None:
    x = torch.tensor([1.0, 1.0, 2.0, 3.0, 3.0, 0.0], dtype=torch.float64)
    y = torch.tensor([0.0, 2.0, 2.0, 2.0, 5.0, 1.0], dtype=torch.float64)
    expected = stats.kendalltau(x.numpy(), y.numpy()).statistic
    assert soft_tau(x, y, 1e-6).item() == pytest.approx(expected)


def test_by_hand() -> None:
    # Differences 1, 1, 2 at temperature 1, all in the right order.
    x = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)
    one, two = math.tanh(1), math.tanh(2)
    expected = (2 * one + two) / math.sqrt(3 * (2 * one**2 + two**2))
    assert soft_tau(x, x, 1.0).item() == pytest.approx(expected)


def test_only_the_order_of_scores_matters() -> None:
    loss = KendallLoss()
    views, labels = batch(loss)
    assert labels is not None
    torch.testing.assert_close(loss(views, labels), loss(views, labels.exp()))


def test_equal_scores_and_equal_cosines_have_no_gradient() -> None:
    loss = KendallLoss()
    views, labels = batch(loss)
    assert labels is not None
    for v, y in [(views, torch.ones_like(labels)), (torch.ones_like(views), labels)]:
        v = v.clone().requires_grad_()
        value = loss(v, y)
        assert value.item() == 1.0
        (gradient,) = torch.autograd.grad(value, v)
        assert not gradient.any()


def test_rejects_a_temperature_of_zero() -> None:
    with pytest.raises(ValueError, match="temperature must be positive"):
        KendallLoss(temperature=0.0)
