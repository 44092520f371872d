from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import expit

from sts_lightning.losses.contrastive import BiXSELoss, SigmoidLoss
from tests.support.loss_cases import batch


def test_equals_the_double_loop() -> None:
    loss = BiXSELoss(scale=4.0, bias=-1.5).double()
    views, labels = batch(loss, 6)
    assert labels is not None
    first, second = (view.numpy() / np.linalg.norm(view.numpy(), axis=1, keepdims=True) for view in views)
    total = 0.0
    for i in range(6):
        for j in range(6):
            predicted = expit(4 * first[i] @ second[j] - 1.5)
            target = labels[i].item() / 5 if i == j else 0.0
            total -= target * math.log(predicted) + (1 - target) * math.log(1 - predicted)
    assert loss(views, labels).item() == pytest.approx(total / 6)


def test_with_the_highest_scores_it_is_the_sigmoid_loss() -> None:
    views, _ = batch(BiXSELoss(), 8)
    ids = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 11, 8, 12, 13, 14]])  # a copy of a sentence
    expected = SigmoidLoss()(views, sentence_ids=ids)
    torch.testing.assert_close(BiXSELoss()(views, torch.full((8,), 5.0), sentence_ids=ids), expected)
    assert BiXSELoss()(views, torch.full((8,), 5.0)) > expected


def test_one_pair_is_fitted_to_its_score() -> None:
    loss = BiXSELoss(scale=2.0, bias=-2.0)
    views = torch.ones(2, 1, 3)  # cosine 1: probability 1/2
    assert loss(views, torch.tensor([2.5])).item() == pytest.approx(math.log(2))
    loss(views, torch.tensor([2.5])).backward()
    assert loss.bias.grad is not None
    assert loss.bias.grad.item() == pytest.approx(0.0, abs=1e-7)


def test_gradient() -> None:
    loss = BiXSELoss(scale=3.0, bias=-1.0).double()
    views, labels = batch(loss)
    assert torch.autograd.gradcheck(lambda v: loss(v, labels), (views.requires_grad_(),), atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"scale": 0.0}, "scale must be positive"), ({"bias": math.inf}, "bias must be finite")],
)
def test_rejects(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BiXSELoss(**settings)
