from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import rel_entr, softmax
from scipy.stats import rankdata

from sts_lightning.papers.losses.rank_kl import RankKLLoss
from tests.support.loss_cases import batch


def with_cosines(cosines: list[float]) -> torch.Tensor:
    x = torch.tensor(cosines, dtype=torch.float64)
    first = torch.tensor([1.0, 0.0], dtype=torch.float64).expand(len(x), 2)
    return torch.stack([first, torch.stack([x, (1 - x**2).sqrt()], dim=1)])


@pytest.mark.parametrize("levels", [4, 1000])
def test_equals_scipy(levels: int) -> None:
    """The authors' steps: average ranks from the highest score, turned around, over (N - 1)."""
    loss = RankKLLoss(temperature=0.3)
    views, _ = batch(loss, 30)
    labels = torch.randint(levels, (30,), generator=torch.Generator().manual_seed(0)).double()
    cosines = torch.nn.functional.cosine_similarity(views[0], views[1]).numpy()
    from_the_top = rankdata(-labels.numpy(), method="average") - 1
    gold = softmax((29 - from_the_top) / 29 / 0.3)
    expected = rel_entr(gold, softmax(cosines / 0.3)).sum() / 30
    assert loss(views, labels).item() == pytest.approx(expected)


def test_is_zero_where_the_cosines_are_the_ranks() -> None:
    loss, labels = RankKLLoss(temperature=0.5), torch.tensor([4.0, 0.5, 0.7, 0.7])
    right = with_cosines([0.9, -0.1, 0.4, 0.4])  # ranks 3, 0, 1.5, 1.5 of a range of 1
    assert loss(right, labels).item() == pytest.approx(0.0, abs=1e-12)
    assert loss(with_cosines([0.9, 0.4, -0.1, 0.4]), labels) > 0.01


def test_one_pair_has_no_order() -> None:
    assert RankKLLoss()(torch.randn(2, 1, 4), torch.tensor([3.0])).item() == 0.0


def test_gradient() -> None:
    loss = RankKLLoss(temperature=0.5)
    views, labels = batch(loss)
    assert torch.autograd.gradcheck(lambda v: loss(v, labels), (views.requires_grad_(),), atol=1e-6)


def test_rejects_a_temperature_of_zero() -> None:
    with pytest.raises(ValueError, match="temperature must be positive"):
        RankKLLoss(temperature=0.0)


def test_the_highest_ranks_count_most() -> None:
    loss, labels = RankKLLoss(), torch.arange(4.0)
    views = with_cosines([0.0, 0.0, 0.0, 0.0]).requires_grad_()
    (gradient,) = torch.autograd.grad(loss(views, labels), views)
    sizes = gradient[1].norm(dim=1).numpy()
    assert np.argmax(sizes) == 3
