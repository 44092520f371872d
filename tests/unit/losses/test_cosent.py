from __future__ import annotations

import itertools
import math
import time

import pytest
import torch
from sentence_transformers.sentence_transformer import losses as peers

from sts_lightning.losses.cosent import CoSENTLoss, misordered
from tests.support.loss_cases import batch


def slow(similarities: list[float], labels: list[float]) -> float:
    pairs = itertools.product(range(len(labels)), repeat=2)
    return math.log(
        1 + sum(math.exp(similarities[i] - similarities[j]) for i, j in pairs if labels[i] < labels[j])
    )


@pytest.mark.parametrize("levels", [2, 3, 100])
def test_equals_the_double_sum(levels: int) -> None:
    generator = torch.Generator().manual_seed(0)
    similarities = torch.randn(40, generator=generator, dtype=torch.float64)
    labels = torch.randint(levels, (40,), generator=generator).double()
    expected = slow(similarities.tolist(), labels.tolist())
    assert misordered(similarities, labels).item() == pytest.approx(expected, rel=1e-12)


def test_equals_sentence_transformers() -> None:
    loss = CoSENTLoss()
    views, labels = batch(loss, 30)
    assert labels is not None
    theirs = peers.CoSENTLoss(None).compute_loss_from_embeddings([views[0], views[1]], labels)
    torch.testing.assert_close(loss(views, labels), theirs)


def test_only_the_order_of_scores_matters() -> None:
    loss = CoSENTLoss()
    views, labels = batch(loss)
    assert labels is not None
    torch.testing.assert_close(loss(views, labels), loss(views, labels.exp()))


def test_equal_scores_cost_nothing() -> None:
    loss = CoSENTLoss()
    views, labels = batch(loss)
    assert labels is not None
    assert loss(views, torch.ones_like(labels)).item() == 0.0


def test_large_batches_take_no_quadratic_memory() -> None:
    size = 200_000  # a matrix of pairs would have 4e10 entries
    similarities = torch.randn(size, requires_grad=True)
    started = time.monotonic()
    misordered(similarities, torch.randint(100, (size,))).backward()
    assert time.monotonic() - started < 30
    assert similarities.grad is not None
    assert similarities.grad.isfinite().all()


def test_large_differences_do_not_overflow() -> None:
    similarities = torch.tensor([500.0, -500.0])
    assert misordered(similarities, torch.tensor([0.0, 1.0])).item() == pytest.approx(1000.0)
    assert misordered(similarities, torch.tensor([1.0, 0.0])).item() == pytest.approx(0.0)


def test_rejects_a_scale_of_zero() -> None:
    with pytest.raises(ValueError, match="scale must be positive"):
        CoSENTLoss(scale=0.0)
