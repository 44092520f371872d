from __future__ import annotations

from typing import Any

import pytest
import torch

from sts_lightning.losses.smooth_k2 import SmoothK2Loss


def test_penalty_by_hand() -> None:
    loss = SmoothK2Loss(4, 2, k=2.0, x0=0.25)
    errors = torch.tensor([0.0, 0.25, 0.75, 1.25])
    assert loss.penalty(errors).tolist() == pytest.approx([0.0, 0.0, 0.5, 2.0])


def test_value_and_derivative_are_continuous_at_x0() -> None:
    loss = SmoothK2Loss(4, 2, k=3.0, x0=0.25)
    around = torch.tensor([0.25 - 1e-6, 0.25 + 1e-6], dtype=torch.float64, requires_grad=True)
    values = loss.penalty(around)
    (slopes,) = torch.autograd.grad(values.sum(), around)
    assert values.tolist() == pytest.approx([0.0, 0.0], abs=1e-10)
    assert slopes.tolist() == pytest.approx([0.0, 0.0], abs=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"x0": 0.6}, "x0 must lie between 0 and half of spacing .0.5."),
        ({"x0": -0.1}, "x0 must lie between"),
        ({"k": 0.0}, "k must be positive"),
    ],
)
def test_rejects(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SmoothK2Loss(4, 2, **settings)


def test_wider_nodes_allow_a_wider_zone() -> None:
    """With nodes 2 apart an error of 0.6 costs nothing, and 0.6 + 0.5 costs k / 4."""
    loss = SmoothK2Loss(4, 2, k=2.0, x0=0.6, spacing=2.0)
    assert loss.penalty(torch.tensor([0.6, 1.1])).tolist() == pytest.approx([0.0, 0.5])
    with pytest.raises(ValueError, match=r"half of spacing .1\b"):
        SmoothK2Loss(4, 2, x0=1.01, spacing=2.0)
