from __future__ import annotations

import numpy as np
import pytest
import torch

from sts_lightning.losses.concordance import ConcordanceLoss, concordance
from sts_lightning.losses.cosine_mse import CosineMSELoss
from tests.support.loss_cases import batch


def test_by_hand() -> None:
    # Means 2 and 3, variances 2/3 and 8/3, covariance 4/3: 2 (4/3) / (2/3 + 8/3 + 1) = 8/13.
    x, y = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 3.0, 5.0])
    assert concordance(x, y).item() == pytest.approx(8 / 13)


def test_is_the_squared_difference_over_its_expectation_without_correlation() -> None:
    """Lin's definition, with the moments of numpy."""
    loss = ConcordanceLoss()
    views, labels = batch(loss, 40)
    assert labels is not None
    x = torch.nn.functional.cosine_similarity(views[0], views[1]).numpy()
    y = labels.numpy() / 5
    whole = np.var(x) + np.var(y) + (np.mean(x) - np.mean(y)) ** 2
    assert loss(views, labels).item() == pytest.approx(np.mean((x - y) ** 2) / whole)
    assert loss(views, labels).item() == pytest.approx(CosineMSELoss()(views, labels).item() / whole)


def test_agreement_and_its_opposite() -> None:
    x = torch.tensor([-0.5, 0.1, 0.4], dtype=torch.float64)
    x = x - x.mean()
    assert concordance(x, x).item() == pytest.approx(1.0)
    assert concordance(x, -x).item() == pytest.approx(-1.0)


def test_shift_and_scale_cost() -> None:
    x = torch.linspace(-1, 1, 9, dtype=torch.float64)
    assert concordance(x, x + 0.3) < 1
    assert concordance(x, 0.5 * x) < 1


def test_undefined_is_zero_without_gradient() -> None:
    x = torch.full((4,), 0.2, dtype=torch.float64, requires_grad=True)
    value = concordance(x, torch.full((4,), 0.2, dtype=torch.float64))
    assert value.item() == 0.0
    (gradient,) = torch.autograd.grad(value, x)
    assert not gradient.any()
