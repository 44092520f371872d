from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sts_lightning.losses.contrastive import InfoNCELoss
from sts_lightning.losses.ibn import IBNLoss


def test_equals_slow_reference() -> None:
    views = np.random.default_rng(0).normal(size=(2, 4, 3))
    scores = np.array([5.0, 0.0, 4.0, 3.9])
    units = (views / np.linalg.norm(views, axis=-1, keepdims=True)).reshape(8, 3)
    total = 0.0
    for i in range(8):
        if scores[i % 4] < 4:
            continue
        others = [math.exp(7 * units[i] @ units[j]) for j in range(8) if j != i]
        total -= math.log(math.exp(7 * units[i] @ units[(i + 4) % 8]) / sum(others))
    loss = IBNLoss(scale=7.0)
    assert loss(torch.from_numpy(views), torch.from_numpy(scores)).item() == pytest.approx(total / 8)


def test_pairs_of_orthogonal_vectors_have_a_closed_form() -> None:
    views = torch.eye(3).expand(2, 3, 3)
    expected = -math.log(math.e / (math.e + 4))
    assert IBNLoss(scale=1.0)(views, torch.full((3,), 5.0)).item() == pytest.approx(expected)


def test_has_more_negatives_than_infonce() -> None:
    views = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0))
    assert IBNLoss(scale=20.0)(views, torch.full((6,), 5.0)) > InfoNCELoss(temperature=0.05)(views)


def test_without_positives_there_is_nothing_to_learn() -> None:
    views = torch.randn(2, 6, 4, requires_grad=True)
    loss = IBNLoss()(views, torch.zeros(6))
    loss.backward()
    assert loss.item() == 0
    assert views.grad is not None
    assert not views.grad.any()


@pytest.mark.parametrize("arguments", [{"scale": 0.0}, {"positive_from": 0.0}, {"positive_from": 6.0}])
def test_rejects_values_out_of_range(arguments: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        IBNLoss(**arguments)


def test_equal_sentences_are_positives_of_each_other() -> None:
    """Against loops; the pair of equal sentences counts twice, and negative pairs have such positives too."""
    views = np.random.default_rng(2).normal(size=(2, 3, 4))
    texts, scores = ["a", "b", "a", "c", "b", "d"], np.array([5.0, 5.0, 0.0])
    units = (views / np.linalg.norm(views, axis=-1, keepdims=True)).reshape(6, 4)
    total = 0.0
    for i in range(6):
        others = sum(math.exp(20 * units[i] @ units[j]) for j in range(6) if j != i)
        wanted = [j for j in range(6) if j != i and texts[j] == texts[i]]
        wanted += [(i + 3) % 6] if scores[i % 3] >= 4 else []
        total -= sum(math.log(math.exp(20 * units[i] @ units[j]) / others) for j in wanted)
    ids = torch.tensor([["abcd".index(text) for text in texts]]).view(2, 3)
    arguments = (torch.from_numpy(views), torch.from_numpy(scores))
    value = IBNLoss(equal_sentences="positives")(*arguments, sentence_ids=ids)
    assert value.item() == pytest.approx(total / 6)
    assert value != IBNLoss()(*arguments, sentence_ids=ids)
    with pytest.raises(ValueError, match="needs sentence_ids"):
        IBNLoss(equal_sentences="positives")(*arguments)
    with pytest.raises(ValueError, match=r"^equal_sentences must be one of"):
        IBNLoss(equal_sentences="neither")  # type: ignore[arg-type]
