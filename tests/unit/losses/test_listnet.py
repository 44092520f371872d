from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax

from sts_lightning.losses.listnet import ListNetLoss
from tests.support.loss_cases import batch


def pairs(cosines: list[float]) -> torch.Tensor:
    """Views in two dimensions with these cosines."""
    x = torch.tensor(cosines, dtype=torch.float64)
    first = torch.tensor([1.0, 0.0], dtype=torch.float64).expand(len(x), 2)
    return torch.stack([first, torch.stack([x, (1 - x**2).sqrt()], dim=1)])


def test_equals_scipy() -> None:
    loss = ListNetLoss(scale=7.0, score_temperature=0.8)
    views, labels = batch(loss, 30)
    assert labels is not None
    cosines = torch.nn.functional.cosine_similarity(views[0], views[1]).numpy()
    expected = -np.sum(softmax(labels.numpy() / 0.8) * log_softmax(7 * cosines))
    assert loss(views, labels).item() == pytest.approx(expected)


def test_by_hand() -> None:
    # Gold: scores 0 and log 3 have top-one probabilities 1/4 and 3/4. Logits 0 and log 3: the same.
    loss = ListNetLoss(scale=2 * math.log(3))
    value = loss(pairs([0.0, 0.5]), torch.tensor([0.0, math.log(3)]))
    assert value.item() == pytest.approx(-(math.log(1 / 4) / 4 + 3 * math.log(3 / 4) / 4))


def test_is_lowest_where_logits_and_scores_differ_by_a_constant() -> None:
    loss = ListNetLoss(scale=10.0, score_temperature=1.0)
    labels = torch.tensor([1.0, 3.0, 4.0, 2.0], dtype=torch.float64)
    views = pairs([-0.1, 0.1, 0.2, 0.0]).requires_grad_()
    (gradient,) = torch.autograd.grad(loss(views, labels), views)
    assert gradient.abs().max() < 1e-12
    assert loss(pairs([-0.1, 0.2, 0.1, 0.0]), labels) > loss(views, labels)


@pytest.mark.parametrize("name", ["scale", "score_temperature"])
def test_rejects(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be positive"):
        ListNetLoss(**{name: 0.0})
