from __future__ import annotations

import math

import pytest
import torch

from sts_lightning.papers.losses.pro import PROLoss
from tests.support.loss_cases import batch


def slow(cosines: list[float], scores: list[float], temperature: float) -> float:
    """The authors' loop: each pair in turn, by descending score, against those of a lower score below it."""
    order = sorted(range(len(scores)), key=lambda row: -scores[row])
    losses = []
    for place, row in enumerate(order):
        lower = [other for other in order[place + 1 :] if scores[row] - scores[other] > 1e-8]
        if not lower:
            continue
        weights = [(scores[row] - scores[other]) / 5 for other in lower]
        own = max(weights) * cosines[row] / temperature
        others = [weight * cosines[other] / temperature for weight, other in zip(weights, lower, strict=True)]
        losses.append(math.log(math.exp(own) + sum(map(math.exp, others))) - own)
    return sum(losses) / len(losses) if losses else 0.0


@pytest.mark.parametrize("levels", [1, 3, 1000])
def test_equals_the_loop(levels: int) -> None:
    loss = PROLoss(temperature=0.2)
    views, _ = batch(loss, 20)
    labels = torch.randint(levels, (20,), generator=torch.Generator().manual_seed(0)).double() * 5 / levels
    cosines = torch.nn.functional.cosine_similarity(views[0], views[1]).tolist()
    assert loss(views, labels).item() == pytest.approx(slow(cosines, labels.tolist(), 0.2), rel=1e-12)


def test_by_hand() -> None:
    # Scores 5 and 0 with cosines 1 and 0: weight 1, log(e + 1) - 1 at temperature 1.
    first = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    value = PROLoss(temperature=1.0)(torch.stack([first, torch.eye(2)]), torch.tensor([5.0, 0.0]))
    assert value.item() == pytest.approx(math.log(math.e + 1) - 1)


def test_gradient_also_where_all_scores_are_equal() -> None:
    loss = PROLoss(temperature=0.5)
    views, labels = batch(loss)
    views.requires_grad_()
    assert torch.autograd.gradcheck(lambda v: loss(v, labels), (views,), atol=1e-6)
    (gradient,) = torch.autograd.grad(loss(views, torch.full((7,), 2.0)), views)
    assert not gradient.any()


def test_rejects_a_temperature_of_zero() -> None:
    with pytest.raises(ValueError, match="temperature must be positive"):
        PROLoss(temperature=0.0)
