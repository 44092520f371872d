from __future__ import annotations

import itertools
import math

import pytest
import torch
from scipy import stats

from sts_lightning.losses.cosent import CoSENTLoss
from sts_lightning.losses.rank_margin import RankMarginLoss
from tests.support.loss_cases import batch


def slow(cosines: list[float], labels: list[float], scale: float, gap: float) -> tuple[float, int]:
    """The double sum, and how many terms it has."""
    ranks = stats.rankdata(labels)
    terms = [
        math.exp(scale * (cosines[i] - cosines[j]))
        for i, j in itertools.product(range(len(labels)), repeat=2)
        if ranks[j] - ranks[i] > gap
    ]
    return math.log(1 + sum(terms)), len(terms)


@pytest.mark.parametrize("gap", [0.0, 1.0, 3.5, 16.0, 39.0])
@pytest.mark.parametrize("levels", [3, 1000])
def test_equals_the_double_sum(gap: float, levels: int) -> None:
    loss = RankMarginLoss(scale=5.0, gap=gap)
    views, _ = batch(loss, 40)
    labels = torch.randint(levels, (40,), generator=torch.Generator().manual_seed(0)).double()
    cosines = torch.nn.functional.cosine_similarity(views[0], views[1]).tolist()
    expected, terms = slow(cosines, labels.tolist(), 5.0, gap)
    assert loss(views, labels).item() == pytest.approx(expected, rel=1e-12)
    assert loss.observed["compared"].item() == pytest.approx(terms / (40 * 39 / 2))


def test_gradient_where_pairs_are_compared() -> None:
    loss = RankMarginLoss(gap=2.0)
    views, labels = batch(loss)
    views.requires_grad_()
    assert torch.autograd.gradcheck(lambda v: loss(v, labels), (views,), atol=1e-6)
    (gradient,) = torch.autograd.grad(loss(views, labels), views)
    assert gradient.any()


def test_without_a_gap_it_is_cosent() -> None:
    loss = RankMarginLoss(gap=0.0)
    views, labels = batch(loss, 30)
    assert labels is not None
    torch.testing.assert_close(loss(views, labels), CoSENTLoss()(views, labels))
    torch.testing.assert_close(loss(views, labels.round()), CoSENTLoss()(views, labels.round()))


def test_a_batch_within_the_gap_costs_nothing() -> None:
    loss = RankMarginLoss(gap=16.0)
    assert loss(*batch(loss, 17)).item() == 0.0
    assert loss(*batch(loss, 18)).item() > 0.0


def test_rejects_a_negative_gap() -> None:
    with pytest.raises(ValueError, match="gap must be finite and not negative"):
        RankMarginLoss(gap=-1.0)
