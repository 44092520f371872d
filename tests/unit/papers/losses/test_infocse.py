from __future__ import annotations

import math

import pytest
import torch

from sts_lightning.papers.losses.infocse import InfoCSELoss


def test_equals_infonce_by_hand_plus_the_weighted_term() -> None:
    views = torch.tensor([[[1.0, 0.0], [0.0, 2.0]], [[1.0, 1.0], [0.0, 1.0]]])
    cosines = [[math.sqrt(0.5), 0.0], [math.sqrt(0.5), 1.0]]
    expected = sum(
        math.log(sum(math.exp(c / 0.1) for c in row)) - row[i] / 0.1 for i, row in enumerate(cosines)
    )
    loss = InfoCSELoss(temperature=0.1, masked_lm_weight=0.25)
    value = loss(views, masked_lm=torch.tensor(3.0))
    assert value.item() == pytest.approx(expected / 2 + 0.75, abs=1e-6)
    assert loss.metrics(views, masked_lm=torch.tensor(3.0))["masked_lm"].item() == 3.0


def test_the_auxiliary_network_learns_by_its_weight() -> None:
    auxiliary = torch.tensor(2.0, requires_grad=True)
    InfoCSELoss(masked_lm_weight=0.5)(torch.randn(2, 3, 4), masked_lm=auxiliary).backward()
    assert auxiliary.grad is not None
    assert auxiliary.grad.item() == 0.5


def test_rejects() -> None:
    with pytest.raises(ValueError, match=r"^masked_lm_weight must be finite"):
        InfoCSELoss(masked_lm_weight=-1)
    with pytest.raises(ValueError, match=r"^temperature must be positive"):
        InfoCSELoss(temperature=0)
    with pytest.raises(ValueError, match="needs masked_lm"):
        InfoCSELoss()(torch.randn(2, 3, 4))
