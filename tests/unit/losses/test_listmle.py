from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

from sts_lightning.losses.listmle import ListMLELoss, plackett_luce
from sts_lightning.papers.losses.rankcse import list_mle
from tests.support.loss_cases import batch


def test_is_the_likelihood_of_an_order() -> None:
    """The probabilities of all orders of four pairs sum to 1, and each is a product of draws."""
    logits = torch.tensor([0.3, -1.2, 2.0, 0.7], dtype=torch.float64)
    whole = 0.0
    for order in itertools.permutations(range(4)):
        labels = torch.empty(4)
        labels[list(order)] = torch.tensor([4.0, 3.0, 2.0, 1.0])
        left, probability = list(order), 1.0
        for row in order:
            probability *= math.exp(logits[row]) / sum(math.exp(logits[other]) for other in left)
            left.remove(row)
        found = math.exp(-4 * plackett_luce(logits, labels))
        assert found == pytest.approx(probability)
        whole += found
    assert whole == pytest.approx(1.0)


@pytest.mark.parametrize("levels", [1, 2, 4, 1000])
def test_equals_the_double_loop_with_ties(levels: int) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 5 * torch.randn(40, generator=generator, dtype=torch.float64)
    labels = torch.randint(levels, (40,), generator=generator)
    s, y = logits.numpy(), labels.numpy()
    expected = np.mean([logsumexp(s[y <= y[i]]) - s[i] for i in range(40)])
    assert plackett_luce(logits, labels).item() == pytest.approx(expected, rel=1e-12)


def test_without_ties_it_is_the_form_for_lists() -> None:
    loss = ListMLELoss()
    views, labels = batch(loss, 20)
    assert labels is not None
    scores = 20 * torch.nn.functional.cosine_similarity(views[0], views[1])
    torch.testing.assert_close(loss(views, labels), list_mle(scores[None], labels[None]))


def test_equal_scores_ask_for_equal_cosines() -> None:
    logits = torch.tensor([0.5, 0.5, 0.5], dtype=torch.float64, requires_grad=True)
    value = plackett_luce(logits, torch.ones(3))
    assert value.item() == pytest.approx(math.log(3))
    (gradient,) = torch.autograd.grad(value, logits)
    assert gradient.abs().max() < 1e-15
    assert plackett_luce(torch.tensor([0.4, 0.5, 0.6]), torch.ones(3)) > math.log(3)


def test_only_the_order_of_scores_matters() -> None:
    loss = ListMLELoss()
    views, labels = batch(loss)
    assert labels is not None
    torch.testing.assert_close(loss(views, labels), loss(views, labels.exp()))


def test_rejects_a_scale_of_zero() -> None:
    with pytest.raises(ValueError, match="scale must be positive"):
        ListMLELoss(scale=0.0)
