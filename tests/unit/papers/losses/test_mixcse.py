from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sts_lightning.losses.infonce import InfoNCELoss
from sts_lightning.papers.losses.mixcse import MixCSELoss


def cos(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_equals_slow_reference() -> None:
    z = np.random.default_rng(0).normal(size=(2, 5, 4))
    unit = z[1] / np.linalg.norm(z[1], axis=1, keepdims=True)
    mixed = [0.2 * unit[j] + 0.8 * unit[(j + 1) % 5] for j in range(5)]
    total = 0.0
    for i in range(5):
        negatives = [cos(z[0, i], mixed[j]) for j in range(5) if j != (i - 1) % 5]
        candidates = [cos(z[0, i], z[1, j]) for j in range(5)] + negatives
        total -= math.log(math.exp(candidates[i] / 0.05) / sum(math.exp(c / 0.05) for c in candidates))
    assert MixCSELoss()(torch.from_numpy(z)).item() == pytest.approx(total / 5)


def test_mixtures_have_no_gradient() -> None:
    # With lambda 1 the mixtures repeat the positives; only InfoNCE's own columns carry their gradient.
    views = torch.randn(2, 4, 6, dtype=torch.float64, requires_grad=True)
    loss = MixCSELoss(mix=1.0)
    (gradient,) = torch.autograd.grad(loss(views), views)
    unit = torch.nn.functional.normalize(views[1], dim=-1)
    logits = torch.nn.functional.normalize(views[0], dim=-1) @ unit.T / 0.05
    blocked = logits.masked_fill(torch.eye(4, dtype=torch.bool).roll(1, dims=1).T, -torch.inf)
    weights = torch.cat([logits, blocked], dim=1).softmax(dim=1)[:, :4]
    slope = (weights - torch.eye(4)).T @ torch.nn.functional.normalize(views[0], dim=-1) / 0.05 / 4
    (expected,) = torch.autograd.grad(unit, views, slope.detach())
    torch.testing.assert_close(gradient[1], expected[1])


def test_harder_than_infonce() -> None:
    views = torch.randn(2, 8, 6, generator=torch.Generator().manual_seed(0))
    assert MixCSELoss()(views) > InfoNCELoss()(views)


def test_rejects_a_mix_outside_the_unit_interval() -> None:
    with pytest.raises(ValueError, match=r"mix must lie in \[0, 1\]"):
        MixCSELoss(mix=1.2)
