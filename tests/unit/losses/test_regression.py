"""The regression framework shared by four losses."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from sts_lightning.losses.regression import (
    L1Loss,
    MSELoss,
    SiameseRegressionLoss,
    SmoothK2Loss,
    TranslatedReLULoss,
    pair_features,
)


def head_of(
    predictions: list[float], top_label: float = 5.0, kind: type[L1Loss] = L1Loss, **settings: Any
) -> tuple[L1Loss, torch.Tensor]:
    """Make a loss, and views for which its head predicts the given numbers."""
    loss = kind(1, top_label, **settings)
    with torch.no_grad():
        loss.head.weight.zero_()
        loss.head.weight[0, 0] = 1.0
        loss.head.bias.zero_()
    first = torch.tensor(predictions, dtype=torch.float64)[:, None]
    return loss, torch.stack([first, torch.ones_like(first)]).requires_grad_()


def gradient(loss: L1Loss, views: torch.Tensor, labels: list[float]) -> list[float]:
    """Compute the gradient of each row's prediction."""
    (found,) = torch.autograd.grad(loss(views, torch.tensor(labels)), views)
    rows: list[float] = found[0, :, 0].tolist()
    return rows


@pytest.mark.parametrize(("features", "size"), [("u_v", 4), ("diff", 2), ("u_v_diff", 6)])
def test_features(features: Any, size: int) -> None:
    u, v = torch.tensor([[1.0, 2.0]]), torch.tensor([[4.0, 1.0]])
    expected = {"u_v": [1, 2, 4, 1], "diff": [3, 1], "u_v_diff": [1, 2, 4, 1, 3, 1]}
    assert pair_features(u, v, features).tolist() == [expected[features]]
    loss = L1Loss(2, 5.0, features=features)
    assert loss.head.weight.shape == (1, size)


def test_the_head_of_the_cosine_starts_at_the_label_range() -> None:
    generator = torch.Generator().manual_seed(0)
    u, v = torch.randn(2, 5, 3, generator=generator, dtype=torch.float64)
    loss = L1Loss(3, 5.0, features="cosine", spacing=2.0)
    expected = [10 * (a @ b / a.norm() / b.norm()).item() for a, b in zip(u, v, strict=True)]
    assert loss.predict(u, v).tolist() == pytest.approx(expected, rel=1e-6)
    assert [parameter.numel() for parameter in loss.head.parameters()] == [1, 1]


def test_equals_the_written_formula() -> None:
    loss = SmoothK2Loss(4, 2.0, k=3.0, x0=0.2, clamp="none").double()
    generator = torch.Generator().manual_seed(0)
    u, v = torch.randn(2, 9, 4, generator=generator, dtype=torch.float64)
    labels = torch.arange(9) % 3
    total = 0.0
    for i in range(9):
        row = torch.cat([u[i], v[i], (u[i] - v[i]).abs()])
        error = abs((loss.head.weight[0] @ row + loss.head.bias[0]).item() - int(labels[i]))
        total += 3.0 * (error - 0.2) ** 2 if error >= 0.2 else 0.0
    assert loss(torch.stack([u, v]), labels).item() == pytest.approx(total / 9)


@pytest.mark.parametrize(
    ("clamp", "expected"), [("none", [2.0, 0.5, 3.0]), ("left", [0.0, 0.5, 3.0]), ("both", [0.0, 0.5, 0.0])]
)
def test_clamping_reads_a_prediction_beyond_the_end_as_the_end(clamp: Any, expected: list[float]) -> None:
    loss, views = head_of([-2.0, 2.5, 8.0], clamp=clamp)
    value = loss(views, torch.tensor([0.0, 3.0, 5.0]))
    assert value.item() == pytest.approx(sum(expected) / 3)


def test_a_clamped_prediction_learns_where_its_label_is_elsewhere() -> None:
    loss, views = head_of([-2.0, 8.0, -2.0, 8.0], clamp="both")
    assert gradient(loss, views, [3.0, 3.0, 0.0, 5.0]) == pytest.approx([-0.25, 0.25, 0.0, 0.0])


def test_plain_regression_is_not_clamped() -> None:
    loss, views = head_of([-2.0, 8.0])
    assert gradient(loss, views, [0.0, 5.0]) == pytest.approx([-0.5, 0.5])


def test_nodes_are_evenly_spaced() -> None:
    loss, views = head_of([0.0, 3.0, 6.0], top_label=2, spacing=3.0)
    assert loss(views, torch.tensor([0, 1, 2])).item() == pytest.approx(0.0)
    assert loss.observed["accuracy"].item() == 1.0


def test_accuracy_is_that_of_the_next_node() -> None:
    loss, views = head_of([0.4, 0.6, -7.0, 9.0], top_label=2)
    loss(views, torch.tensor([0, 1, 0, 1]))
    assert loss.observed["accuracy"].item() == 0.75


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"spacing": 0.0}, "spacing must be positive"),
        ({"clamp": "right"}, "clamp must be one of none, left, both"),
        ({"features": "u"}, "features must be one of u_v, diff, u_v_diff, cosine"),
    ],
)
def test_rejects(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        L1Loss(4, 5.0, **settings)


@pytest.mark.parametrize(
    ("loss", "penalties"),
    [
        (L1Loss(4, 5.0), [0.0, 0.25, 0.75, 1.25]),
        (MSELoss(4, 5.0), [0.0, 0.0625, 0.5625, 1.5625]),
        (TranslatedReLULoss(4, 2, k=2.5, x0=0.25), [0.0, 0.0, 1.25, 2.5]),
        (SmoothK2Loss(4, 2, k=2.0, x0=0.25), [0.0, 0.0, 0.5, 2.0]),
    ],
)
def test_penalty_by_hand(loss: SiameseRegressionLoss, penalties: list[float]) -> None:
    assert loss.penalty(torch.tensor([0.0, 0.25, 0.75, 1.25])).tolist() == pytest.approx(penalties)


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
def test_rejects_k_and_x0(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SmoothK2Loss(4, 2, **settings)


def test_wider_nodes_allow_a_wider_zone() -> None:
    """With nodes 2 apart an error of 0.6 costs nothing, and 0.6 + 0.5 costs k / 4."""
    loss = SmoothK2Loss(4, 2, k=2.0, x0=0.6, spacing=2.0)
    assert loss.penalty(torch.tensor([0.6, 1.1])).tolist() == pytest.approx([0.0, 0.5])
    with pytest.raises(ValueError, match=r"half of spacing .1\b"):
        SmoothK2Loss(4, 2, x0=1.01, spacing=2.0)


def test_slope_is_zero_inside_and_k_outside() -> None:
    errors = torch.tensor([0.1, 0.3, 2.0], requires_grad=True)
    (slopes,) = torch.autograd.grad(TranslatedReLULoss(4, 2, k=2.5).penalty(errors).sum(), errors)
    assert slopes.tolist() == [0.0, 2.5, 2.5]


def test_rejects_overlapping_zones() -> None:
    with pytest.raises(ValueError, match="correct for two labels"):
        TranslatedReLULoss(4, 2, x0=0.51)
