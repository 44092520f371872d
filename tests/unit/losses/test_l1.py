from __future__ import annotations

import pytest
import torch

from sts_lightning.losses.l1 import L1Loss


def test_penalty_by_hand() -> None:
    penalties = L1Loss(4, 5.0).penalty(torch.tensor([0.0, 0.5, 3.0]))
    assert penalties.tolist() == pytest.approx([0.0, 0.5, 3.0])
