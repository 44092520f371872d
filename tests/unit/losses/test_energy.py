from __future__ import annotations

import pytest
import torch

from sts_lightning.losses.contrastive import EnergyLoss


def test_by_hand() -> None:
    # Anchors along x and y. Positives: cosines 1 and 0.6; the other row's positive: 0.8 and 0.
    anchors = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    positives = torch.tensor([[1.0, 0.0], [0.8, 0.6]])
    # Row 0: 0.3 + 0.8 - 1 = 0.1. Row 1: 0.3 + 0 - 0.6 < 0.
    assert EnergyLoss(0.3)(torch.stack([anchors, positives])).item() == pytest.approx(0.05)
    # The hard negative of row 0 has cosine 0.6 with row 0 and 0.8 with row 1: row 1 costs 0.3 + 0.8 - 0.6.
    negatives = torch.tensor([[0.6, 0.8], [-1.0, 0.0]])
    three = torch.stack([anchors, positives, negatives])
    assert EnergyLoss(0.3)(three).item() == pytest.approx((0.1 + 0.5) / 2)


def test_zero_beyond_the_margin() -> None:
    views = torch.eye(4).expand(2, 4, 4)
    assert EnergyLoss(0.2)(views).item() == 0.0
    assert EnergyLoss(1.5)(views).item() == pytest.approx(0.5)
