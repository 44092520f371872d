from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from sts_lightning.losses.cross_entropy import CrossEntropyLoss
from tests.support.loss_cases import batch, make


def test_a_head_of_zeros_knows_nothing() -> None:
    loss = CrossEntropyLoss(4, 2)
    torch.nn.init.zeros_(loss.head.weight)
    torch.nn.init.zeros_(loss.head.bias)
    assert loss(torch.randn(2, 6, 4), torch.arange(6) % 3).item() == pytest.approx(math.log(3))


def test_equals_the_written_formula() -> None:
    loss = make("cross_entropy")
    assert isinstance(loss, CrossEntropyLoss)
    (u, v), labels = batch(loss)
    logits = torch.cat([u, v, (u - v).abs()], dim=1) @ loss.head.weight.T + loss.head.bias
    assert labels is not None
    torch.testing.assert_close(loss(torch.stack([u, v]), labels), F.cross_entropy(logits, labels))
    right = (logits.argmax(dim=1) == labels).float().mean()
    assert loss.metrics(torch.stack([u, v]), labels)["accuracy"] == right


def test_has_one_logit_for_each_class() -> None:
    loss = CrossEntropyLoss(4, 4, features="diff")
    assert loss.logits(torch.ones(2, 4), torch.ones(2, 4)).shape == (2, 5)
