from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

from sts_lightning.losses.contrastive import GISTLoss, InfoNCELoss
from tests.support.loss_cases import batch


def slow(views: torch.Tensor, guides: list[np.ndarray], margin: float, tau: float) -> float:
    """Candidate by candidate; `guides` holds a matrix for each view that the guide has read."""
    unit = views.numpy() / np.linalg.norm(views.numpy(), axis=2, keepdims=True)
    rows = []
    for i in range(views.shape[1]):
        kept = []
        for number, view in enumerate(unit[1:]):
            for j in range(views.shape[1]):
                known = number < len(guides) and i != j
                if not (known and guides[number][i, j] > guides[0][i, i] + margin):
                    kept.append(unit[0, i] @ view[j] / tau)
        rows.append(logsumexp(kept) - unit[0, i] @ unit[1, i] / tau)
    return float(np.mean(rows))


def crowded(size: int = 9) -> torch.Tensor:
    """Three views in three dimensions, where many negatives beat the positive."""
    return torch.randn(3, size, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("margin", [-0.2, 0.0, 0.3])
def test_the_model_guides_itself(count: int, margin: float) -> None:
    views = crowded()[:count]
    unit = torch.nn.functional.normalize(views, dim=-1)
    guides = [(unit[0] @ view.T).numpy() for view in unit[1:]]
    loss = GISTLoss(margin=margin)
    assert loss(views).item() == pytest.approx(slow(views, guides, margin, 0.05))
    assert loss.metrics(views)["masked"] > 0.1
    assert loss(views) < InfoNCELoss()(views)


@pytest.mark.parametrize("count", [2, 3])
def test_a_teacher_guides(count: int) -> None:
    views = crowded()[:count]
    teacher = torch.rand(9, 9, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    loss = GISTLoss(guide="teacher", margin=0.0)
    assert loss.needs.required_inputs == ("teacher",)
    expected = slow(views, [teacher.numpy()], 0.0, 0.05)
    assert loss(views, teacher=teacher).item() == pytest.approx(expected)


def test_with_nothing_masked_it_is_infonce() -> None:
    loss = GISTLoss(margin=1.99)
    views, _ = batch(loss)
    torch.testing.assert_close(loss(views), InfoNCELoss()(views))
    assert loss.metrics(views)["masked"] == 0


def test_fraction_of_masked_candidates() -> None:
    teacher = torch.tensor([[0.5, 0.6, 0.4], [0.1, 0.2, 0.3], [0.0, 0.0, 0.9]])
    loss = GISTLoss(guide="teacher", margin=0.0)
    assert loss.metrics(torch.randn(2, 3, 4), teacher=teacher)["masked"].item() == pytest.approx(2 / 6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0.0}, "temperature must be positive"),
        ({"guide": "oracle"}, "guide must be one of self, teacher"),
        ({"margin": 2.0}, "margin must lie in"),
    ],
)
def test_rejects(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GISTLoss(**settings)


def test_an_absent_teacher_is_an_error() -> None:
    with pytest.raises(ValueError, match="needs teacher"):
        GISTLoss(guide="teacher")(torch.randn(2, 3, 4))
