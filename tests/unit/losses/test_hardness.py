from __future__ import annotations

import numpy as np
import pytest
import torch

from sts_lightning.losses.contrastive import HardnessLoss, InfoNCELoss
from tests.support.loss_cases import batch


def slow(views: torch.Tensor, tau: float, beta: float, prior: float) -> tuple[float, int]:
    """Row by row as published, and the number of rows at the least value."""
    unit = views.numpy() / np.linalg.norm(views.numpy(), axis=2, keepdims=True)
    size, rows, clamped = views.shape[1], [], 0
    for i in range(size):
        others = [view[j] for view in unit[1:] for j in range(size)]
        positive = np.exp(unit[0, i] @ others.pop(i) / tau)
        negatives = np.exp([unit[0, i] @ other / tau for other in others])
        weights = negatives**beta / np.mean(negatives**beta)
        count = len(negatives)
        hard = (np.sum(weights * negatives) - count * prior * positive) / (1 - prior)
        least = count * np.exp(-1 / tau)
        clamped += hard < least
        rows.append(-np.log(positive / (positive + max(hard, least))))
    return float(np.mean(rows)), clamped


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("beta", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("prior", [0.0, 0.1, 0.6])
def test_equals_the_published_form(count: int, beta: float, prior: float) -> None:
    loss = HardnessLoss(temperature=0.5, hardness=beta, prior=prior)
    views = batch(loss, 12)[0][:count]
    expected, clamped = slow(views, 0.5, beta, prior)
    assert (clamped > 0) == (prior == 0.6)
    assert loss(views).item() == pytest.approx(expected)


@pytest.mark.parametrize("prior", [0.1, 0.6])
def test_gradient_with_a_prior(prior: float) -> None:
    loss = HardnessLoss(temperature=0.5, prior=prior)
    views, _ = batch(loss, 5)
    views.requires_grad_()
    assert torch.autograd.gradcheck(lambda v: loss(v), (views,), atol=1e-6)


def test_without_weights_and_prior_it_is_infonce() -> None:
    loss = HardnessLoss(hardness=0.0)
    views, _ = batch(loss)
    torch.testing.assert_close(loss(views), InfoNCELoss()(views))
    torch.testing.assert_close(loss(views[:2]), InfoNCELoss()(views[:2]))


def test_a_low_temperature_does_not_overflow() -> None:
    loss = HardnessLoss(temperature=0.001, hardness=3.0, prior=0.1)
    views = batch(loss)[0].float().requires_grad_()
    value = loss(views)
    (gradient,) = torch.autograd.grad(value, views)
    assert value.isfinite()
    assert gradient.isfinite().all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0.0}, "temperature must be positive"),
        ({"hardness": -1.0}, "hardness must be finite and not negative"),
        ({"prior": 1.0}, "prior must lie in"),
    ],
)
def test_rejects(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HardnessLoss(**settings)
