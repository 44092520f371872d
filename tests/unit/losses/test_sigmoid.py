from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import expit

from sts_lightning.losses.contrastive import SigmoidLoss
from sts_lightning.training.optim import NO_DECAY
from tests.support.loss_cases import batch, make


def unit(rows: torch.Tensor) -> np.ndarray:
    values: np.ndarray = rows.numpy() / np.linalg.norm(rows.numpy(), axis=1, keepdims=True)
    return values


@pytest.mark.parametrize("views", [2, 3])
def test_equals_the_double_loop(views: int) -> None:
    loss = SigmoidLoss(scale=4.0, bias=-1.5).double()
    all_views, _ = batch(loss, 6)
    given = all_views[:views]
    anchors, *others = [unit(view) for view in given]
    total = 0.0
    for i in range(6):
        for number, view in enumerate(others):
            for j in range(6):
                sign = 1 if number == 0 and i == j else -1
                total -= math.log(expit(sign * (4 * anchors[i] @ view[j] - 1.5)))
    assert loss(given).item() == pytest.approx(total / 6)


def test_by_hand() -> None:
    # One row: its positive alone, with cosine 1: log(1 + exp(-(2 - 2))).
    loss = SigmoidLoss(scale=2.0, bias=-2.0)
    assert loss(torch.ones(2, 1, 3)).item() == pytest.approx(math.log(2))


def test_at_the_start_the_bias_keeps_negatives_cheap() -> None:
    loss = make("sigmoid")
    value = loss(torch.eye(40, dtype=torch.float64).expand(2, 40, 40))
    expected = math.log1p(math.exp(4.143 - 10)) + 39 * math.log1p(math.exp(-4.143))
    assert value.item() == pytest.approx(expected)  # 0.65; 27 without the bias
    assert {name: round(float(seen), 4) for name, seen in loss.metrics(torch.eye(2)).items()} == {
        "scale": 10.0,
        "bias": round(-math.log(63), 3),
    }


def test_scale_and_bias_have_no_weight_decay() -> None:
    names = [name for name, _ in SigmoidLoss().named_parameters()]
    assert names == ["log_scale", "bias"]
    assert all(name.endswith(NO_DECAY) for name in names)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"scale": 0.0}, "scale must be positive"), ({"bias": math.inf}, "bias must be finite")],
)
def test_rejects(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SigmoidLoss(**settings)
