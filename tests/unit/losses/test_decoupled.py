from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sts_lightning.losses.contrastive import DecoupledLoss


@pytest.mark.parametrize("num_views", [2, 3])
def test_equals_slow_reference(num_views: int) -> None:
    views = np.random.default_rng(0).normal(size=(num_views, 5, 4))
    units = views / np.linalg.norm(views, axis=-1, keepdims=True)
    total = 0.0
    for i in range(5):
        others = [units[0, i] @ units[1, j] for j in range(5) if j != i]
        others += [units[0, i] @ row for row in units[2]] if num_views == 3 else []
        total += -units[0, i] @ units[1, i] / 0.1 + 0.7 * math.log(sum(math.exp(c / 0.1) for c in others))
    loss = DecoupledLoss(temperature=0.1, uniformity_weight=0.7)
    assert loss(torch.from_numpy(views)).item() == pytest.approx(total / 5)


def test_the_two_parts_add_up() -> None:
    loss = DecoupledLoss()
    views = torch.randn(2, 6, 4)
    terms = loss.metrics(views)
    torch.testing.assert_close(loss(views), terms["alignment"] + terms["uniformity"])


def test_lies_below_infonce_by_what_the_positive_adds() -> None:
    from sts_lightning.losses.contrastive import InfoNCELoss

    views = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0))
    assert DecoupledLoss()(views) < InfoNCELoss()(views)
