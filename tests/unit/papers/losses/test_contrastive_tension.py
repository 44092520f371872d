from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sts_lightning.papers.losses.contrastive_tension import ContrastiveTensionLoss, contrast_pairs


def test_equals_slow_reference() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(8, 5)), rng.normal(size=(8, 5))
    negatives = [i for i in range(8) if i % 4 != 0]
    total = 0.0
    for i in range(8):
        if i % 4 == 0:
            total -= math.log(1 / (1 + math.exp(-first[i] @ second[i])))
        else:
            j = negatives[(negatives.index(i) + 1) % len(negatives)]
            total -= math.log(1 - 1 / (1 + math.exp(-first[i] @ second[j])))
    loss = ContrastiveTensionLoss(group=4)
    value = loss(torch.from_numpy(first)[None], second=torch.from_numpy(second))
    assert value.item() == pytest.approx(total / 8)
    terms = loss.metrics(torch.from_numpy(first)[None], second=torch.from_numpy(second))
    mean = (2 * terms["positive"] + 6 * terms["negative"]) / 8
    assert value.item() == pytest.approx(mean.item())


@pytest.mark.parametrize(("size", "group"), [(16, 8), (7, 3), (2, 2), (3, 2), (5, 8), (1, 8)])
def test_one_positive_pair_in_each_group(size: int, group: int) -> None:
    positive, partner = contrast_pairs(size, group)
    assert positive.tolist() == [i % group == 0 for i in range(size)]
    for i, j in enumerate(partner.tolist()):
        assert (i == j) == bool(positive[i])
    if (~positive).sum() > 1:  # each sentence is read by both encoders once
        assert sorted(partner.tolist()) == list(range(size))


def test_both_encoders_learn() -> None:
    generator = torch.Generator().manual_seed(0)
    first = torch.randn(1, 8, 4, generator=generator, requires_grad=True)
    second = torch.randn(8, 4, generator=generator, requires_grad=True)
    ContrastiveTensionLoss()(first, second=second).backward()
    assert first.grad is not None
    assert second.grad is not None
    assert bool((first.grad.norm(dim=-1) > 0).all())
    assert bool((second.grad.norm(dim=-1) > 0).all())


def test_large_products_stay_finite() -> None:
    loss = ContrastiveTensionLoss(group=2)
    value = loss(torch.full((1, 4, 1), 1e4), second=torch.full((4, 1), 1e2))
    assert value.item() == pytest.approx(0.5e6)  # half of the pairs are negatives, with a product of 1e6


def test_rejects() -> None:
    with pytest.raises(ValueError, match=r"^group must be at least 2"):
        ContrastiveTensionLoss(group=1)
    with pytest.raises(ValueError, match="needs second"):
        ContrastiveTensionLoss()(torch.randn(1, 4, 8))
