from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sts_lightning.errors import ConfigError
from sts_lightning.losses.infonce import InfoNCELoss


def slow(views: np.ndarray, temperature: float, weight: float) -> float:
    """Equation 5 of SimCSE, term by term."""

    def exp_cos(a: np.ndarray, b: np.ndarray, extra: float = 0.0) -> float:
        return math.exp(float(a @ b) / float(np.linalg.norm(a) * np.linalg.norm(b)) / temperature + extra)

    total = 0.0
    for i in range(views.shape[1]):
        denominator = sum(exp_cos(views[0, i], views[1, j]) for j in range(views.shape[1]))
        if len(views) == 3:
            denominator += sum(
                exp_cos(views[0, i], views[2, j], weight if i == j else 0.0) for j in range(views.shape[1])
            )
        total -= math.log(exp_cos(views[0, i], views[1, i]) / denominator)
    return total / views.shape[1]


@pytest.mark.parametrize("num_views", [2, 3])
@pytest.mark.parametrize("weight", [0.0, 1.5])
@pytest.mark.parametrize("temperature", [0.05, 1.0])
def test_equals_slow_reference(num_views: int, weight: float, temperature: float) -> None:
    views = np.random.default_rng(0).normal(size=(num_views, 5, 4))
    loss = InfoNCELoss(temperature, weight)(torch.from_numpy(views))
    assert loss.item() == pytest.approx(slow(views, temperature, weight), rel=1e-4)


def test_identical_embeddings_give_log_of_the_candidates() -> None:
    assert InfoNCELoss()(torch.ones(3, 8, 4)).item() == pytest.approx(math.log(16), rel=1e-6)
    assert InfoNCELoss()(torch.ones(2, 8, 4)).item() == pytest.approx(math.log(8), rel=1e-6)


def test_gradient_is_finite_on_equal_embeddings() -> None:
    views = torch.ones(3, 4, 4, requires_grad=True)
    InfoNCELoss()(views).backward()
    assert views.grad is not None
    assert views.grad.isfinite().all()


def test_refuses_a_temperature_of_zero() -> None:
    with pytest.raises(ConfigError, match="temperature must be positive"):
        InfoNCELoss(temperature=0.0)
