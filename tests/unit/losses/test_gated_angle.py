from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from sts_lightning.losses.gated_angle import GatedAngleLoss, angle
from tests.support.loss_cases import batch


def slow(views: np.ndarray, labels: list[float], teacher: np.ndarray | None, scale: float) -> float:
    u, v = views
    cosines = (u * v).sum(1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
    theta = np.arccos(cosines)
    terms = [
        math.exp(scale * (theta[j] - theta[i]))
        for i, j in itertools.product(range(len(labels)), repeat=2)
        if labels[i] < labels[j] and (teacher is None or teacher[i, i] < teacher[j, j])
    ]
    return math.log(1 + sum(terms))


@pytest.mark.parametrize("gated", [False, True])
def test_equals_the_double_sum(gated: bool) -> None:
    loss = GatedAngleLoss(scale=5.0)
    views, _ = batch(loss, 30)
    labels = torch.arange(30) % 3
    teacher = torch.rand(30, 30, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    given = teacher if gated else None
    expected = slow(views.numpy(), labels.tolist(), None if given is None else given.numpy(), 5.0)
    assert loss(views, labels, teacher=given).item() == pytest.approx(expected, rel=1e-12)


def test_the_gate_drops_what_the_teacher_contradicts() -> None:
    loss = GatedAngleLoss()
    views, _ = batch(loss, 2)
    labels = torch.tensor([0, 2])
    agrees, contradicts = torch.diag(torch.tensor([0.1, 0.9])), torch.diag(torch.tensor([0.9, 0.1]))
    torch.testing.assert_close(loss(views, labels, teacher=agrees), loss(views, labels))
    assert loss(views, labels, teacher=contradicts).item() == 0.0


def test_gradient_with_a_teacher() -> None:
    loss = GatedAngleLoss()
    views, _ = batch(loss)
    labels = torch.arange(7) % 3
    teacher = torch.rand(7, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    views.requires_grad_()
    assert torch.autograd.gradcheck(lambda v: loss(v, labels, teacher=teacher), (views,), atol=1e-6)


def test_angles_are_exact_near_zero() -> None:
    theta = torch.tensor([0.0, 1e-6, 1e-3, math.pi / 2, math.pi], dtype=torch.float64)
    first = torch.tensor([2.0, 0.0], dtype=torch.float64).expand(5, 2)
    second = 3 * torch.stack([theta.cos(), theta.sin()], dim=1)
    torch.testing.assert_close(angle(first, second), theta, rtol=1e-9, atol=1e-15)


def test_equal_scores_cost_nothing() -> None:
    loss = GatedAngleLoss()
    views, labels = batch(loss)
    assert labels is not None
    assert loss(views, torch.ones_like(labels)).item() == 0.0
