from __future__ import annotations

import pytest
import torch

from sts_lightning.losses.translated_relu import TranslatedReLULoss


def test_penalty_by_hand() -> None:
    loss = TranslatedReLULoss(4, 2, k=2.5, x0=0.25)
    errors = torch.tensor([0.0, 0.25, 0.75, 1.25])
    assert loss.penalty(errors).tolist() == pytest.approx([0.0, 0.0, 1.25, 2.5])


def test_slope_is_zero_inside_and_k_outside() -> None:
    errors = torch.tensor([0.1, 0.3, 2.0], requires_grad=True)
    (slopes,) = torch.autograd.grad(TranslatedReLULoss(4, 2, k=2.5).penalty(errors).sum(), errors)
    assert slopes.tolist() == [0.0, 2.5, 2.5]


def test_rejects_overlapping_zones() -> None:
    with pytest.raises(ValueError, match="correct for two labels"):
        TranslatedReLULoss(4, 2, x0=0.51)
